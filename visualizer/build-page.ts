import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { transform } from 'esbuild';
import { type OutputChunk, type OutputOptions, type Plugin, rolldown } from 'rolldown';
import { structuralHash } from '../machines/structural-hash.ts';
import { CHART_STYLE } from './chart-svg.ts';

/** The files of the page as texts. */
export type PageFiles = {
  html: string;
  /** The HTML of the view of a run, whose files browsers request at once instead of after the page's script. */
  runHtml: string;
  css: string;
  icon: string;
  /** Modules by their names: `page.js`, and the parts that views load, whose names change with their contents. */
  scripts: Record<string, string>;
  /** All scripts as one classic script, for a document without a server. */
  offline: string;
};

const STYLES = [
  'tokens',
  'parts',
  'values',
  'shell',
  'run',
  'panes',
  'chart',
  'steering',
  'views',
  'overview',
  'inbox',
  'session',
  'compare',
  'regressions',
  'ahead',
];

const ENTRY = 'page.js';

const PAGE = fileURLToPath(new URL('./page/', import.meta.url));
const STRUCTURAL_HASH = fileURLToPath(new URL('../machines/structural-hash.ts', import.meta.url));
const STATE_TREE = fileURLToPath(new URL('./state-tree.ts', import.meta.url));

/** Bundles the page from its sources, without external resources. Uses Rolldown, and esbuild for the styles. */
export async function buildPage(): Promise<PageFiles> {
  const [html, icon, css, modules, [offline]] = await Promise.all([
    readFile(`${PAGE}index.html`, 'utf8'),
    readFile(`${PAGE}icon.svg`, 'utf8'),
    readStyle(),
    bundle({ format: 'esm' }),
    bundle({ format: 'iife', codeSplitting: false }),
  ]);
  const scripts = Object.fromEntries(
    modules.map(({ fileName, code }) => [fileName, withoutBareImports(code)]),
  );
  const runViews = Object.keys(scripts).filter(name => name.startsWith('run-view-'));
  return {
    html: preload(html, withImports([ENTRY], scripts)),
    runHtml: preload(html, withImports([ENTRY, ...runViews], scripts)),
    css,
    icon,
    scripts,
    offline: offline?.code ?? '',
  };
}

/** A part that another imports without a name is loaded by those that use it; no part does anything by itself. */
function withoutBareImports(script: string): string {
  return script.replace(/\bimport"\.\/[^"]+";/g, '');
}

function withImports(names: readonly string[], scripts: Readonly<Record<string, string>>): Set<string> {
  const loaded = new Set(names);
  for (const name of loaded)
    for (const [, imported = ''] of (scripts[name] ?? '').matchAll(/\b(?:from|import)"\.\/([^"]+)"/g))
      loaded.add(imported);
  return loaded;
}

/** Adds a link for each file, so that browsers request all of them at once. The HTML loads `page.js` itself. */
function preload(html: string, names: Set<string>): string {
  names.delete(ENTRY);
  const links = Array.from(names, name => `    <link rel="modulepreload" href="/assets/${name}" />\n`);
  return html.replace('  </head>', `${links.join('')}  </head>`);
}

async function bundle(output: OutputOptions): Promise<OutputChunk[]> {
  const built = await rolldown({
    input: { page: `${PAGE}main.tsx` },
    platform: 'browser',
    plugins: [replaced],
    transform: {
      target: 'es2023',
      jsx: { runtime: 'automatic', importSource: 'preact' },
      define: { 'process.env.NODE_ENV': '"production"' },
    },
    treeshake: { moduleSideEffects: id => id.endsWith('main.tsx'), propertyReadSideEffects: false },
    logLevel: 'silent',
  });
  const options = { minify: true, comments: false, entryFileNames: '[name].js' } as const;
  const { output: files } = await built.generate({ ...options, ...output });
  await built.close();
  return files.filter(file => file.type === 'chunk');
}

/**
 * What replaces modules of the checkout in the page. The hash of the chart is a constant, which needs no SHA-256. The page
 * folds with the compiled chart: of XState it needs the tree of states, without actors and steps.
 */
export const replaced: Plugin = {
  name: 'replaced',
  resolveId: id => (id === 'xstate' ? STATE_TREE : undefined),
  load: id =>
    id === STRUCTURAL_HASH
      ? `export const structuralHash = () => ${JSON.stringify(structuralHash())};`
      : undefined,
};

async function readStyle(): Promise<string> {
  const sheets = await Promise.all(STYLES.map(name => readFile(`${PAGE}styles/${name}.css`, 'utf8')));
  const { code } = await transform([CHART_STYLE, ...sheets].join('\n'), { loader: 'css', minify: true });
  return code;
}
