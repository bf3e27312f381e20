/** Writes the tables of routes in docs/server.md: part of `npm run docs`. */
import { readFileSync, writeFileSync } from 'node:fs';
import { insertRouteTables } from './route-tables.ts';

const page = new URL('../../../docs/server.md', import.meta.url);
writeFileSync(page, insertRouteTables(readFileSync(page, 'utf8')));
