/** Puts the built page into the package, next to `page-assets.js`: a step of `npm run build`. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { buildPage } from './build-page.ts';

const folder = fileURLToPath(new URL('../dist/visualizer/page/', import.meta.url));
const { html, js, css, icon } = await buildPage();
mkdirSync(folder, { recursive: true });
writeFileSync(`${folder}index.html`, html);
writeFileSync(`${folder}page.js`, js);
writeFileSync(`${folder}page.built.css`, css);
writeFileSync(`${folder}icon.svg`, icon);
