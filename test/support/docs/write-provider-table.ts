/** Writes the table of providers in README.md from the capabilities of the adapters: part of `npm run docs`. */
import { readFileSync, writeFileSync } from 'node:fs';
import { insertProviderTable } from './provider-table.ts';

const readme = new URL('../../../README.md', import.meta.url);
writeFileSync(readme, await insertProviderTable(readFileSync(readme, 'utf8')));
