/** Puts the current chart into README.md: `npm run docs`. A test holds the README to it. */
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { insertChart } from './readme-chart.ts';

const file = fileURLToPath(new URL('../README.md', import.meta.url));
writeFileSync(file, insertChart(readFileSync(file, 'utf8')));
