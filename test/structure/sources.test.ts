/** The rules of the sources. They are one suite, as to parse the sources takes seconds. */
import './conventions.ts';
import './imports.ts';
import './words.ts';
