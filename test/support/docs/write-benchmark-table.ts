/** Writes the tables of docs/benchmarks.md from bench/peers/result.json: part of `npm run docs`. */
import { readFileSync, writeFileSync } from 'node:fs';
import { insertBenchmarks } from './benchmark-table.ts';

const page = new URL('../../../docs/benchmarks.md', import.meta.url);
writeFileSync(page, insertBenchmarks(readFileSync(page, 'utf8')));
