import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { expect, test } from 'vitest';

/** What a reader copies from the page of the chat with approvals, and installs. */

const text = readFileSync(new URL('../../docs/cookbook/chat-with-approvals.md', import.meta.url), 'utf8');
/** The files by the names in their first lines, and the program without a name. */
const files = new Map(
  [...text.matchAll(/^```[jt]sx?\n([\s\S]*?)^```/gm)].map(([, code = '']) => [
    `./${/^\/\/ ([\w.-]+)\n/.exec(code)?.[1] ?? ''}`,
    code,
  ]),
);

test('the page installs the packages that its files import, and Vite', () => {
  const imported = [...files.values()].flatMap(code => [...code.matchAll(/from '((?:@[\w-]+\/)?[\w-]+)/g)]);
  const packages = new Set([...imported.map(([, name = '']) => name), 'vite']);
  for (const name of ['node', 'agentchart']) packages.delete(name);
  const installed = [...text.matchAll(/^npm install (?:--save-dev )?(.+)$/gm)];
  const named = installed.flatMap(([, names = '']) => names.split(' '));
  expect(named.toSorted()).toEqual([...packages].toSorted());
});

test('the pages are whole: index.html loads a file that bundles with all that it imports', async () => {
  const [, entry = ''] = /<script type="module" src="\/([\w.]+)">/.exec(text) ?? [];
  const { outputFiles } = await build({
    stdin: { contents: files.get(`./${entry}`) ?? '', loader: 'tsx' },
    bundle: true,
    write: false,
    format: 'esm',
    jsx: 'automatic',
    external: ['react', 'react-dom', 'react/*', 'react-dom/*', '@ai-sdk/react'],
    plugins: [
      {
        name: 'files-of-the-page',
        setup({ onResolve, onLoad }) {
          onResolve({ filter: /^\.\// }, ({ path }) => ({ path, namespace: 'page' }));
          onLoad({ filter: /.*/, namespace: 'page' }, ({ path }) => ({
            contents: files.get(path) ?? '',
            loader: 'tsx',
          }));
        },
      },
    ],
    absWorkingDir: fileURLToPath(new URL('../..', import.meta.url)),
  });
  const bundle = outputFiles[0]?.text ?? '';
  for (const shown of ['A manager looks at it.', 'Approve', 'createRoot']) expect(bundle).toContain(shown);
});
