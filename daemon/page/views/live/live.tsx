/** What is recorded now. */
export function Live() {
  return <main />;
}
