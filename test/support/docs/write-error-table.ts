/** Writes the table of error codes in docs/guide/errors.md: part of `npm run docs`. */
import { readFileSync, writeFileSync } from 'node:fs';
import { insertErrorTable } from './error-table.ts';

const page = new URL('../../../docs/guide/errors.md', import.meta.url);
writeFileSync(page, insertErrorTable(readFileSync(page, 'utf8')));
