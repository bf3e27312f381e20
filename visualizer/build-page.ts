import { readFile } from 'node:fs/promises';
import { basename } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build, type OutputFile, type Plugin, transform } from 'esbuild';
import { structuralHash } from '../machines/structural-hash.ts';
import { CHART_STYLE } from './chart-svg.ts';
import { MARKDOWN_OPTIONS } from './page/render/markdown-options.ts';

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

const MARKED = new Map(Object.entries(MARKDOWN_OPTIONS).map(([name, value]) => [name, String(value)]));

const STYLES = [
  'tokens',
  'parts',
  'shell',
  'run',
  'panes',
  'steering',
  'views',
  'inbox',
  'session',
  'compare',
  'regressions',
  'ahead',
];

const ENTRY = 'page.js';

const PAGE = fileURLToPath(new URL('./page/', import.meta.url));

/** Bundles the page from its sources, without external resources. Uses esbuild. */
export async function buildPage(): Promise<PageFiles> {
  const [html, icon, css, modules, [offline]] = await Promise.all([
    readFile(`${PAGE}index.html`, 'utf8'),
    readFile(`${PAGE}icon.svg`, 'utf8'),
    readStyle(),
    bundle({ format: 'esm', splitting: true }),
    bundle({ format: 'iife' }),
  ]);
  const scripts = Object.fromEntries(modules.map(({ path, text }) => [basename(path), text]));
  const runViews = Object.keys(scripts).filter(name => name.startsWith('run-view-'));
  return {
    html: preload(html, withImports([ENTRY], scripts)),
    runHtml: preload(html, withImports([ENTRY, ...runViews], scripts)),
    css,
    icon,
    scripts,
    offline: offline?.text ?? '',
  };
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

async function bundle(output: { format: 'esm' | 'iife'; splitting?: true }): Promise<OutputFile[]> {
  const { outputFiles } = await build({
    ...output,
    entryPoints: { page: `${PAGE}main.tsx` },
    outdir: PAGE,
    bundle: true,
    write: false,
    minify: true,
    platform: 'browser',
    target: 'es2023',
    plugins: [lexerOnly, knownHash, compiledOnly],
    jsx: 'automatic',
    jsxImportSource: 'preact',
    define: { 'process.env.NODE_ENV': '"production"' },
    legalComments: 'none',
    logLevel: 'silent',
  });
  return outputFiles;
}

/** `marked` is one module. The page draws its tokens: only the lexer is left, without what writes HTML. */
const lexerOnly: Plugin = {
  name: 'lexer-only',
  setup({ onLoad }) {
    onLoad({ filter: /[\\/]marked\.esm\.js$/ }, async ({ path }) => {
      const text = await readFile(path, 'utf8');
      const end = /;var \w+=new \w+;function \w+\(\w+,\w+\)\{return \w+\.parse\(/.exec(text)?.index;
      const name = /\b(\w+) as Lexer\b/.exec(text)?.[1];
      if (end === undefined || name === undefined)
        throw new Error(`Expected the lexer and the instance of marked in ${path}; its build has changed.`);
      const lexer = text
        .slice(0, end)
        .replace(/this\.options\.(\w+)/g, (read, option) => MARKED.get(option) ?? read);
      return { contents: `${lexer};export{${name} as Lexer}`, loader: 'js' };
    });
  },
};

/** The hash of the chart is a constant of the page, which needs no SHA-256 then. */
const knownHash: Plugin = {
  name: 'known-hash',
  setup({ onLoad }) {
    onLoad({ filter: /machines[\\/]structural-hash\.ts$/ }, () => ({
      contents: `export const structuralHash = () => ${JSON.stringify(structuralHash())};`,
      loader: 'js',
    }));
  },
};

/** The page folds with the compiled chart. Of XState it needs the tree of states, not its actors and its own steps. */
const compiledOnly: Plugin = {
  name: 'compiled-only',
  setup({ onLoad }) {
    onLoad({ filter: /xstate[\\/]dist[\\/]\w+-\w+\.esm\.js$/ }, async ({ path }) => {
      const text = await readFile(path, 'utf8');
      const [module = ''] = basename(path).split('-');
      return { contents: (LEFT_OUT[module] ?? []).reduce(leaveOut, text), loader: 'js' };
    });
  },
};

const functions = (names: string): string[] => names.split(/\s+/).map(name => `function ${name}(`);

/** By module of XState, what only its own steps and actors need. */
const LEFT_OUT: Readonly<Record<string, readonly string[]>> = {
  raise: [
    'class Actor {',
    ...functions(`checkAnd createSystem evaluateGuard executeCancel executeRaise executeSpawn executeStop
      getPersistedSnapshot macrostep matchesState resolveCancel resolveRaise resolveSpawn resolveStop`),
  ],
  StateMachine: `get definition, next, provide, transition, microstep, getTransitionData, start, get on,
    _getPreInitialState, getInitialSnapshot, restoreSnapshot`
    .split(/,\s+/)
    .map(name => `  ${name}(`),
  assign: functions('createSpawner resolveAssign'),
  log: functions(`executeEmit executeLog executeSendTo resolveEmit resolveEnqueueActions resolveLog resolveSendTo
    retryResolveSendTo`),
};

/** The module without a declaration: what uses it throws. */
function leaveOut(text: string, declaration: string): string {
  const indent = /^ */.exec(declaration)?.[0] ?? '';
  const start = text.indexOf(`\n${declaration}`);
  const end = text.indexOf(`\n${indent}}\n`, start);
  if (start < 0 || end < 0)
    throw new Error(`Expected "${declaration}" in a module of xstate; its build has changed.`);
  const head = declaration.replace(/[({ ]{1,8}$/, '');
  const body = head.startsWith('class ') ? '{}' : "() { throw Error('The page has no actors of XState.'); }";
  return `${text.slice(0, start)}\n${head} ${body}\n${text.slice(end + indent.length + 3)}`;
}

async function readStyle(): Promise<string> {
  const sheets = await Promise.all(STYLES.map(name => readFile(`${PAGE}styles/${name}.css`, 'utf8')));
  const { code } = await transform([CHART_STYLE, ...sheets].join('\n'), { loader: 'css', minify: true });
  return code;
}
