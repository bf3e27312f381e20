import { fileURLToPath } from 'node:url';
import { createContext, runInContext } from 'node:vm';
import { build } from 'esbuild';
import { rolldown } from 'rolldown';
import { describe, expect, test } from 'vitest';
import manifest from '../../package.json' with { type: 'json' };

/** The library and the adapters as bundlers for browsers and workers take them. */

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

const ADAPTERS = Object.keys(manifest.exports)
  .filter(entry => entry.startsWith('./adapters/'))
  .map(entry => entry.slice(2));

/** The globals that browsers and workers share; `process` and `Buffer` are not among them. */
const WEB_GLOBALS = {
  AbortController,
  AbortSignal,
  DOMException,
  Headers,
  Request,
  Response,
  ReadableStream,
  URL,
  TextDecoder,
  TextEncoder,
  TextDecoderStream,
  atob,
  btoa,
  crypto,
  fetch,
  performance,
  structuredClone,
  clearTimeout,
  console,
  queueMicrotask,
  setTimeout,
};

/** One agent that calls a tool: once by the engine, and once as an actor with `agent.services()`. */
const PROGRAM = `
  import { createActor, waitFor } from 'xstate';
  import * as z from 'zod';
  import { createAgent, tool } from './agent/index.ts';
  import { scripted } from './adapters/scripted.ts';

  const add = tool({
    name: 'add',
    description: 'Adds numbers.',
    input: z.object({ a: z.number(), b: z.number() }),
    sideEffect: 'none',
    run: ({ a, b }) => a + b,
  });
  const model = scripted([{ toolCalls: [{ name: 'add', arguments: { a: 2, b: 3 } }] }, { text: 'It is 5.' }]);
  const agent = createAgent({ name: 'sums', model, tools: [add] });

  export async function play() {
    const settled = await agent.run('2 + 3?');
    const machine = agent.machine.provide({ actors: agent.services() });
    const actor = createActor(machine, { input: agent.input('2 + 3?') }).start();
    const { output } = await waitFor(actor, ({ status }) => status === 'done');
    return { settled, output };
  }`;

async function bundleWithEsbuild(code: string): Promise<string> {
  const { outputFiles } = await build({
    stdin: { contents: code, resolveDir: ROOT, loader: 'ts' },
    bundle: true,
    platform: 'browser',
    format: 'iife',
    globalName: 'program',
    write: false,
    logLevel: 'silent',
  });
  return outputFiles[0]?.text ?? '';
}

/** Vite bundles with rolldown. */
async function bundleWithRolldown(code: string): Promise<string> {
  const bundle = await rolldown({
    cwd: ROOT,
    input: `${ROOT}program.ts`,
    platform: 'browser',
    plugins: [
      {
        name: 'program',
        resolveId: id => (id === `${ROOT}program.ts` ? id : null),
        load: id => (id === `${ROOT}program.ts` ? code : null),
      },
    ],
    onLog: (_level, { message }) => {
      throw new Error(message);
    },
  });
  const { output } = await bundle.generate({ format: 'iife', name: 'program', codeSplitting: false });
  return output[0].code;
}

describe.each([
  ['esbuild', bundleWithEsbuild],
  ['rolldown', bundleWithRolldown],
])('bundled for browsers by %s', (_name, bundle) => {
  test('an agent runs by itself and as an actor, without globals of Node', async () => {
    const page = createContext({ ...WEB_GLOBALS });
    runInContext(await bundle(PROGRAM), page);
    const { settled, output } = await runInContext('program.play()', page);
    expect(settled).toMatchObject({ status: 'finished', text: 'It is 5.', results: [{ output: 5 }] });
    expect(output).toEqual(settled);
  });

  test('every adapter loads without modules and globals of Node', async () => {
    const code = await bundle(ADAPTERS.map(entry => `export * from './${entry}.ts';`).join('\n'));
    expect(code).not.toMatch(/\bfrom\s*["']node:|\brequire\(["']node:|\bimport\(["']node:/);
    const page = createContext({ ...WEB_GLOBALS });
    runInContext(code, page);
    expect(runInContext('Object.keys(program)', page)).toContain('openaiResponses');
  });
});
