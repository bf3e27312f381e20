/** Writes the table of providers in docs/models.md from the capabilities of the adapters: part of `npm run docs`. */
import { readFileSync, writeFileSync } from 'node:fs';
import { insertProviderTable } from './provider-table.ts';

const page = new URL('../../../docs/models.md', import.meta.url);
writeFileSync(page, await insertProviderTable(readFileSync(page, 'utf8')));
