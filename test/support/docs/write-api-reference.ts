/** Writes docs/api from the types: `npm run docs:api`. */
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { apiReference } from './api-reference.ts';

const folder = new URL('../../../docs/api/', import.meta.url);
const pages = apiReference();
rmSync(folder, { recursive: true, force: true });
mkdirSync(folder);
for (const [name, text] of pages) writeFileSync(new URL(name, folder), text);
