/** Two transactions, windows or reports beside each other. */
export function Compare() {
  return <main />;
}
