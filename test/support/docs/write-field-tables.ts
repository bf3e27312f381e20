/** Writes the tables of fields in docs/request-fields.md: part of `npm run docs`. */
import { readFileSync, writeFileSync } from 'node:fs';
import { insertFieldTables } from './field-tables.ts';

const page = new URL('../../../docs/request-fields.md', import.meta.url);
writeFileSync(page, insertFieldTables(readFileSync(page, 'utf8')));
