import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { transform } from 'esbuild';
import { type OutputChunk, type OutputOptions, type Plugin, rolldown } from 'rolldown';
import { structuralHash } from '../machines/structural-hash.ts';
import { CHART_STYLE } from './chart-svg.ts';

/** The files of the page as texts. */
export type PageFiles = {
  html: string;
  /** Without the styles that are in the HTML. */
  css: string;
  icon: string;
  /** Modules by their names: `page.js`, and the parts that views load, whose names change with their contents. */
  scripts: Record<string, string>;
  /** All scripts as one classic script, for a document without a server. */
  offline: string;
};

/** Of what the HTML itself has: in it, so that the browser paints it without another request. */
const FIRST_STYLES = ['tokens', 'top'];

const STYLES = [
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

const PAGE = fileURLToPath(new URL('./page/', import.meta.url));
const STRUCTURAL_HASH = fileURLToPath(new URL('../machines/structural-hash.ts', import.meta.url));
const COMPILE_ACTION = fileURLToPath(new URL('../machines/compiled/compile-action.ts', import.meta.url));
const STATE_TREE = fileURLToPath(new URL('./state-tree.ts', import.meta.url));
/** What is imported of `compile-action.ts`, from the tree of states. Nothing reads the name of the first event. */
const ACTIONS = `const INIT = 'start';
  export { INIT };
  export {
    TreeInput as ActionInput, treeAction as compileAction, treeStart as compileStart, treeGuard as compileGuard,
    treeOutput as compileOutput,
  } from ${JSON.stringify(STATE_TREE)};`;

/** Bundles the page from its sources, without external resources. Uses Rolldown, and esbuild for the styles. */
export async function buildPage(): Promise<PageFiles> {
  const [bare, first, icon, css, modules, [offline]] = await Promise.all([
    readFile(`${PAGE}index.html`, 'utf8'),
    readStyle(FIRST_STYLES),
    readFile(`${PAGE}icon.svg`, 'utf8'),
    readStyle(STYLES, CHART_STYLE),
    bundle({ format: 'esm' }),
    bundle({ format: 'iife', codeSplitting: false }),
  ]);
  const scripts = Object.fromEntries(
    modules.map(({ fileName, code }) => [fileName, withoutBareImports(code)]),
  );
  return {
    html: bare.replace('  </head>', `  <style>${first.trim()}</style>\n  </head>`),
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

/** JSX becomes calls of `createElement`, whose children are arguments: shorter than the objects of the automatic runtime. */
async function bundle(output: OutputOptions): Promise<OutputChunk[]> {
  const built = await rolldown({
    input: { page: `${PAGE}main.tsx` },
    platform: 'browser',
    plugins: [replaced],
    transform: {
      target: 'es2023',
      jsx: { runtime: 'classic', pragma: 'createElement', pragmaFrag: 'Fragment' },
      inject: { createElement: ['preact', 'createElement'], Fragment: ['preact', 'Fragment'] },
      define: {
        'process.env.NODE_ENV': '"production"',
        'typeof requestAnimationFrame': '"function"',
        'typeof window': '"object"',
        'window.__PREACT_SIGNALS_DEVTOOLS__': 'false',
      },
    },
    treeshake: { moduleSideEffects: id => id.endsWith('main.tsx'), propertyReadSideEffects: false },
    logLevel: 'silent',
  });
  const options = {
    minify: true,
    comments: false,
    entryFileNames: '[name].js',
    chunkFileNames: '[name]-[hash:6].js',
  } as const;
  const { output: files } = await built.generate({ ...options, ...output });
  await built.close();
  return files.filter(file => file.type === 'chunk');
}

/**
 * What replaces modules of the checkout in the page. The hash of the chart is a constant, which needs no SHA-256. The page
 * folds with the compiled chart: of XState it needs the tree of states, without actors and steps, and its actions.
 */
export const replaced: Plugin = {
  name: 'replaced',
  resolveId: id => (id === 'xstate' ? STATE_TREE : undefined),
  load: id => {
    if (id === COMPILE_ACTION) return ACTIONS;
    return id === STRUCTURAL_HASH
      ? `export const structuralHash = () => ${JSON.stringify(structuralHash())};`
      : undefined;
  },
};

async function readStyle(names: readonly string[], before = ''): Promise<string> {
  const sheets = await Promise.all(names.map(name => readFile(`${PAGE}styles/${name}.css`, 'utf8')));
  const { code } = await transform([before, ...sheets].join('\n'), { loader: 'css', minify: true });
  return code;
}
