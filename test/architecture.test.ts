import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { createContext, runInContext } from 'node:vm';
import { build } from 'esbuild';
import { beforeAll, describe, expect, it } from 'vitest';
import { createActor, waitFor } from 'xstate';
import type * as Entry from '../agent/machine.ts';
import type { ModelTurn } from '../protocol/turn.ts';
import { makeConfig, makeStarted } from './support/machines/builders.ts';

const ROOT = fileURLToPath(new URL('..', import.meta.url));

/** What the fronts may import that need the server. */
const OF_SERVED = ['protocol', 'access', 'machines', 'engine', 'agent', 'server'];

/** The layers that each layer may import. Imports go one way. */
const MAY_IMPORT: Readonly<Record<string, readonly string[]>> = {
  protocol: [],
  access: ['protocol'],
  machines: ['protocol'],
  rules: ['protocol'],
  text: ['protocol', 'machines'],
  engine: ['protocol', 'machines', 'rules', 'text'],
  adapters: ['protocol'],
  tools: ['protocol'],
  'tools/notes': ['protocol', 'machines', 'text', 'engine', 'adapters', 'tools', 'agent'],
  stores: ['protocol', 'engine'],
  visualizer: ['protocol', 'access', 'machines', 'engine', 'regress'],
  agent: ['protocol', 'machines', 'rules', 'text', 'engine', 'adapters', 'tools', 'stores'],
  runner: ['protocol', 'machines', 'engine', 'agent'],
  explore: ['protocol', 'machines', 'rules', 'engine', 'tools', 'agent'],
  regress: ['protocol', 'machines', 'text', 'engine'],
  testing: [
    'protocol',
    'machines',
    'rules',
    'regress',
    'engine',
    'adapters',
    'stores',
    'tools',
    'agent',
    'explore',
  ],
  server: [
    'protocol',
    'access',
    'machines',
    'text',
    'engine',
    'adapters',
    'tools',
    'tools/notes',
    'agent',
    'stores',
    'visualizer',
    'regress',
  ],
  fronts: ['protocol', 'machines', 'text', 'engine', 'adapters', 'tools', 'agent', 'stores'],
  hosts: ['protocol', 'machines', 'engine', 'agent', 'stores'],
  'fronts/ai-sdk-ui': [...OF_SERVED, 'fronts/served'],
  'fronts/react': ['protocol', 'machines', 'engine'],
  'fronts/ag-ui': [...OF_SERVED, 'text', 'tools', 'fronts/served'],
  'fronts/served': OF_SERVED,
  'fronts/mcp': [...OF_SERVED, 'text', 'tools', 'fronts/served'],
  'fronts/a2a': [...OF_SERVED, 'text', 'fronts/served'],
  cli: [
    'protocol',
    'access',
    'machines',
    'text',
    'engine',
    'adapters',
    'tools',
    'tools/notes',
    'agent',
    'explore',
    'regress',
    'testing',
    'stores',
    'visualizer',
    'server',
    'fronts',
    'fronts/served',
    'fronts/mcp',
    'fronts/a2a',
    'fronts/ag-ui',
    'fronts/ai-sdk-ui',
  ],
};

/** The rooms of the engine that each of its rooms may import. */
const ENGINE: Readonly<Record<string, readonly string[]>> = {
  host: [],
  versions: [],
  events: ['host'],
  journal: ['host', 'versions'],
  listening: ['host'],
  log: ['host', 'events', 'journal'],
  replay: ['journal', 'log'],
  'sub-agents': ['host', 'events', 'journal', 'log'],
  services: ['host', 'versions', 'events', 'journal', 'log', 'sub-agents'],
  story: ['host', 'events', 'journal', 'sub-agents'],
  driver: ['host', 'versions', 'events', 'journal', 'log', 'sub-agents', 'services'],
  run: ['host', 'versions', 'events', 'journal', 'log', 'sub-agents', 'services', 'story', 'driver'],
  migrations: ['host', 'versions', 'journal', 'sub-agents', 'run'],
};

/** The rooms of `/v1` in server/: the files that others may import, and the rooms that each may import through theirs. */
const GATEWAY_ROOMS: Readonly<Record<string, { doors: readonly string[]; imports: readonly string[] }>> = {
  builtins: { doors: ['builtin-schemas.ts', 'builtin-tools.ts'], imports: [] },
  gateway: {
    doors: [
      'answer/answer-event.ts',
      'answer/turn-items.ts',
      'answer/wire-ids.ts',
      'config/gateway-config.ts',
      'config/read-gateway-config.ts',
      'gateway-service.ts',
      'live/respond.ts',
      'live/response-feed.ts',
      'plan/client-work.ts',
      'plan/input-items.ts',
      'plan/references.ts',
      'request/clear-context.ts',
      'request/client-session.ts',
      'request/compaction-items.ts',
      'request/field-table.ts',
      'request/gateway-request.ts',
      'request/known-bodies.ts',
      'request/openai-items.ts',
      'request/read-fields.ts',
      'request/request-tools.ts',
      'request/sealed-items.ts',
      'request/shared-parameters.ts',
      'runs/continued-run.ts',
      'runs/response-library.ts',
      'runs/response-spec.ts',
    ],
    imports: ['access', 'builtins'],
  },
  responses: {
    doors: [
      'item-reader.ts',
      'request-body.ts',
      'response-writer.ts',
      'responses-api.ts',
      'responses.ts',
      'wire-input.ts',
    ],
    imports: ['builtins', 'gateway'],
  },
  conversations: { doors: ['conversations.ts'], imports: ['gateway', 'responses'] },
  sockets: { doors: ['response-socket.ts'], imports: ['gateway', 'responses'] },
  'chat-completions': { doors: ['chat-api.ts'], imports: ['gateway'] },
  messages: { doors: ['messages-api.ts'], imports: ['gateway'] },
};

/** The only places that may import a package: folders or files. */
const PACKAGE_HOMES: Readonly<Record<string, readonly string[]>> = {
  xstate: ['machines/', 'engine/driver/live.ts'],
  '@noble/hashes': ['protocol/', 'machines/'],
  openai: ['server/chat-completions/', 'server/responses/'],
  '@anthropic-ai/sdk': ['server/messages/'],
  ai: ['fronts/ai-sdk-ui/chunk.ts'],
  '@modelcontextprotocol/client': ['tools/mcp'],
  '@modelcontextprotocol/server': ['fronts/mcp/'],
  commander: ['cli/'],
  '@grpc/grpc-js': ['adapters/grpc/'],
  'gpt-tokenizer': ['adapters/harmony/'],
  '@huggingface/jinja': ['adapters/vllm/'],
  '@huggingface/tokenizers': ['adapters/vllm/'],
  '@opentelemetry/api': ['fronts/otel/'],
  '@restatedev/restate-sdk': ['hosts/restate/'],
  '@restatedev/restate-sdk-clients': ['hosts/restate/ingress.ts'],
  hono: ['server/', 'cli/', 'fronts/'],
  '@hono/node-server': ['server/'],
  ws: ['server/serve.ts'],
};

type Source = { file: string; text: string; imports: string[] };

/** Folders without sources: build output, packages, test results and pictures. */
const NO_SOURCES = ['dist', 'node_modules', 'test-results', 'images'];

/** The sources below a folder, and the golden journals. */
function findFiles(folder: string): string[] {
  return readdirSync(join(ROOT, folder), { withFileTypes: true }).flatMap(entry => {
    const path = `${folder}/${entry.name}`;
    if (entry.isDirectory()) return NO_SOURCES.includes(entry.name) ? [] : findFiles(path);
    return path.endsWith('.ts') || /^test\/golden\/.*\.json$/.test(path) ? [path] : [];
  });
}

function readSources(folder: string): Source[] {
  return readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' })
    .filter(name => name.endsWith('.ts'))
    .map(name => {
      const file = `${folder}/${name.replaceAll('\\', '/')}`;
      const text = readFileSync(join(ROOT, file), 'utf8');
      return { file, text, imports: findImports(text) };
    });
}

/** The modules named after `from`, in `import(…)` and in a bare `import`; type imports count. */
function findImports(text: string): string[] {
  const statements = text.matchAll(/^(?:import|export)\b(?:[^;'"]*?\bfrom\s*)?\s*'([^']+)'/gm);
  const calls = text.matchAll(/^(?!\s*(?:\/\/|\*)).*\bimport\(\s*'([^']+)'/gm);
  return [...statements, ...calls].flatMap(([, name]) => (name === undefined ? [] : [name]));
}

const layers = Object.keys(MAY_IMPORT).filter(layer => !layer.includes('/'));
const sources = layers.flatMap(readSources);
const _files = [...layers, 'bench', 'examples', 'test'].flatMap(findFiles);

/** The layer of a path: the longest prefix that is a layer. */
function layerOf(path: string): string {
  const parts = path.split(/[\\/]/);
  const inner = parts.slice(0, 2).join('/');
  return inner in MAY_IMPORT ? inner : (parts[0] ?? '');
}

/** The layer that an import refers to, or `null` for a package. */
function targetLayer({ file }: Source, imported: string): string | null {
  if (!imported.startsWith('.')) return null;
  return layerOf(relative(ROOT, join(ROOT, dirname(file), imported)));
}

function packageOf(imported: string): string {
  return imported
    .split('/')
    .slice(0, imported.startsWith('@') ? 2 : 1)
    .join('/');
}

const importsOf = new Map(sources.map(({ file, imports }) => [file, imports]));

/** The project files that a file imports, directly or indirectly; includes the file itself only in a cycle. */
function findReached(file: string, reached = new Set<string>()): Set<string> {
  for (const imported of importsOf.get(file) ?? []) {
    const target = relative(ROOT, join(ROOT, dirname(file), imported)).replaceAll('\\', '/');
    if (!imported.startsWith('.') || reached.has(target)) continue;
    reached.add(target);
    findReached(target, reached);
  }
  return reached;
}

/** The import cycles, each as a list of files in source order. */
function findCycles(): string[][] {
  const reached = new Map(sources.map(({ file }) => [file, findReached(file)]));
  const leads = (from: string, to: string) => reached.get(from)?.has(to) === true;
  const inCycles = sources.map(({ file }) => file).filter(file => leads(file, file));
  const cycles = new Map<string, string[]>();
  for (const file of inCycles) {
    const first = inCycles.find(other => leads(file, other) && leads(other, file)) ?? file;
    cycles.set(first, [...(cycles.get(first) ?? []), file]);
  }
  return [...cycles.values()];
}

describe('the architecture', () => {
  it('create-agentchart, a package of its own, reaches for no file outside its folder', () => {
    const leading = readSources('create-agentchart').flatMap(({ file, imports }) =>
      imports
        .filter(name => name.startsWith('.') && !join(dirname(file), name).startsWith('create-agentchart/'))
        .map(name => `${file}: ${name}`),
    );
    expect(leading).toEqual([]);
  });

  it('finds imports of every form', () => {
    const text = [
      "import { a } from './a.ts';",
      "import type {\n  B,\n} from '../b.ts';",
      "import './c.ts';",
      "export { d } from './d.ts';",
      "  const { e } = await import('./e.ts');",
      "// from './comment.ts', or import('./comment.ts')",
      " * import { f } from './comment.ts';",
      "const g = 1; // import './comment.ts'",
    ].join('\n');
    expect(findImports(text)).toEqual(['./a.ts', '../b.ts', './c.ts', './d.ts', './e.ts']);
    expect(sources.find(({ file }) => file === 'machines/step.ts')?.imports).toContain('./agent.ts');
  });

  it.each(Object.entries(MAY_IMPORT))('%s/ imports only the layers [%s]', (folder, allowed) => {
    const own = sources.filter(({ file }) => layerOf(file) === folder);
    const wrong = own.flatMap(source =>
      source.imports.flatMap(imported => {
        const target = targetLayer(source, imported);
        const fits = target === null || target === folder || allowed.includes(target);
        return fits ? [] : [`${source.file} imports ${imported}`];
      }),
    );
    expect(own.length).toBeGreaterThan(0);
    expect(wrong).toEqual([]);
  });

  it.each(Object.entries(ENGINE))('engine/%s/ imports only the rooms [%s] of the engine', (room, allowed) => {
    const rooms = Object.keys(ENGINE);
    expect(allowed.filter(other => rooms.indexOf(other) >= rooms.indexOf(room))).toEqual([]);
    const own = sources.filter(({ file }) => file.startsWith(`engine/${room}/`));
    const wrong = own.flatMap(({ file, imports }) =>
      imports.flatMap(imported => {
        const [layer, target = ''] = relative(ROOT, join(ROOT, dirname(file), imported)).split(/[\\/]/);
        const fits = !imported.startsWith('.') || layer !== 'engine' || [room, ...allowed].includes(target);
        return fits ? [] : [`${file} imports ${imported}`];
      }),
    );
    expect(own.length).toBeGreaterThan(0);
    expect(wrong).toEqual([]);
  });

  it('each file of the engine is in one of its rooms', () => {
    const strays = sources
      .map(({ file }) => file.split('/'))
      .filter(([layer, room = '']) => layer === 'engine' && !(room in ENGINE));
    expect(strays).toEqual([]);
  });

  it.each(Object.entries(GATEWAY_ROOMS))(
    'server/%s is entered by its doors only',
    (room, { doors, imports }) => {
      const folder = `server/${room}/`;
      const wrong = sources.flatMap(source =>
        source.imports.flatMap(imported => {
          const target = relative(ROOT, join(ROOT, dirname(source.file), imported)).replaceAll('\\', '/');
          if (!imported.startsWith('.') || source.file.startsWith(folder) === target.startsWith(folder))
            return [];
          const isDoor = doors.some(door => target === folder + door);
          const [, other] = /^server\/([^/]+)\//.exec(target) ?? [];
          const fits = target.startsWith(folder) ? isDoor : other === undefined || imports.includes(other);
          return fits ? [] : [`${source.file} imports ${imported}`];
        }),
      );
      expect(sources.some(({ file }) => file.startsWith(folder))).toBe(true);
      expect(wrong).toEqual([]);
    },
  );

  it.each(Object.entries(PACKAGE_HOMES))('%s is imported only in [%s]', (name, homes) => {
    const importers = sources.filter(({ imports }) => imports.some(imported => packageOf(imported) === name));
    const wrong = importers
      .map(({ file }) => file)
      .filter(file => !homes.some(home => file.startsWith(home)));
    expect(wrong).toEqual([]);
  });

  it('of the SDKs of providers only types are imported, which check what the server writes', () => {
    const loads = sources.filter(({ text }) =>
      /^import (?!type\b)[^;]*from '(openai|@anthropic-ai\/sdk)/m.test(text),
    );
    expect(loads.map(({ file }) => file)).toEqual([]);
  });

  it('zod is imported as a namespace, so that bundlers can drop its unused parts', () => {
    const named = sources.filter(({ text }) => /^import (type )?\{[^}]*\} from 'zod(\/mini)?'/m.test(text));
    expect(named.map(({ file }) => file)).toEqual([]);
  });

  it('protocol/ uses zod/mini, which loads five times faster: every import of the package waits for it', () => {
    const importers = sources.filter(
      ({ file, imports }) => file.startsWith('protocol/') && imports.includes('zod'),
    );
    expect(importers.map(({ file }) => file)).toEqual([]);
  });

  it('no file imports itself, directly or indirectly, types included', () => {
    expect(findCycles()).toEqual([]);
  });

  it('the page has nothing of the engine but the part of the story that is pure', () => {
    const engine = sources
      .filter(({ file }) => file.startsWith('visualizer/'))
      .flatMap(({ file }) => [...findReached(file)].filter(reached => reached.startsWith('engine/')));
    expect([...new Set(engine)].sort()).toEqual([
      'engine/story/story-event.ts',
      'engine/story/tell-story.ts',
      'engine/story/tell-wire.ts',
    ]);
  });

  it("only modules that make steps or compile actions use XState's private event names", () => {
    const users = sources.filter(({ text }) => /['"`]@?xstate\.\w/.test(text)).map(({ file }) => file);
    expect(users.sort()).toEqual(['machines/compiled/compile-action.ts', 'machines/step.ts']);
  });

  it('the chart is pure: machines/ and protocol/ use no clock, randomness, environment or timer', () => {
    const impure =
      /\b(Date\.now|new Date\(\)|Math\.random|randomUUID|process\.[a-z]|setTimeout|setInterval|fetch\()/;
    const pure = sources.filter(({ file }) => /^(machines|protocol)\//.test(file));
    expect(pure.filter(({ text }) => impure.test(text)).map(({ file }) => file)).toEqual([]);
    const ofNode = pure.filter(({ imports }) => imports.some(imported => imported.startsWith('node:')));
    expect(ofNode.map(({ file }) => file)).toEqual([]);
  });

  it('no object is spread out of a literal: its members stand in the outer object', () => {
    expect(sources.filter(({ text }) => /\.\.\.\{ *\w/.test(text)).map(({ file }) => file)).toEqual([]);
  });
});

describe('the story in a browser', () => {
  it('is bundled without schemas, stores and the rest of the engine', async () => {
    const { metafile } = await build({
      absWorkingDir: ROOT,
      entryPoints: ['engine/story/tell-story.ts'],
      bundle: true,
      platform: 'browser',
      format: 'esm',
      write: false,
      metafile: true,
      logLevel: 'silent',
    });
    const [output] = Object.values(metafile.outputs);
    const bundled = Object.entries(output?.inputs ?? {}).flatMap(([file, { bytesInOutput }]) =>
      bytesInOutput === 0 ? [] : [file],
    );
    expect(bundled).toContain('engine/story/tell-story.ts');
    const others = /^(engine\/(?!story\/)|node_modules\/(?!xstate\/))/;
    expect(bundled.filter(file => others.test(file))).toEqual([]);
  });
});

const BROWSER_GLOBALS = {
  AbortController,
  AbortSignal,
  clearTimeout,
  console,
  crypto,
  performance,
  queueMicrotask,
  setTimeout,
  TextEncoder,
  URL,
};

describe('agentchart/machine in a browser', () => {
  let code = '';
  let imports: string[] = [];

  beforeAll(async () => {
    const { outputFiles, metafile } = await build({
      absWorkingDir: ROOT,
      entryPoints: ['agent/machine.ts'],
      bundle: true,
      platform: 'browser',
      format: 'iife',
      globalName: 'entry',
      minify: true,
      write: false,
      metafile: true,
      logLevel: 'silent',
    });
    code = outputFiles[0]?.text ?? '';
    imports = Object.values(metafile.inputs)
      .flatMap(input => input.imports)
      .map(({ path, original }) => original ?? path);
  });

  it('bundles without any `node:` import', () => {
    expect(imports).toContain('xstate');
    expect(imports.filter(path => path.startsWith('node:'))).toEqual([]);
    expect(code).not.toMatch(/["'`]node:/);
  });

  it('contains no SDK, store or server', () => {
    const heavy = ['openai', '@anthropic-ai/sdk', '@modelcontextprotocol/client', 'hono', 'commander'];
    expect(imports.filter(path => heavy.includes(packageOf(path)))).toEqual([]);
  });

  it('runs with browser APIs only: a machine from the bundle makes an actor that responds', async () => {
    const page = createContext({ ...BROWSER_GLOBALS });
    runInContext(code, page);
    const bundled: Pick<typeof Entry, 'agentMachine' | 'fromAdapter'> = page.entry;
    const turn: ModelTurn = {
      text: 'hi',
      reasoning: '',
      toolCalls: [],
      finishReason: 'stop',
      usage: null,
      model: 'test',
      items: [],
    };
    const modelTurn = bundled.fromAdapter({
      provider: 'test',
      model: 'test',
      capabilities: {
        streaming: true,
        parallelToolCalls: false,
        reasoningReplay: false,
        serverTools: false,
        structuredOutput: 'instructions' as const,
        continuation: false,
        usage: 'unknown',
      },
      generate: async () => turn,
      async *stream() {
        yield { type: 'turn', turn };
      },
    });
    const machine = bundled.agentMachine.provide({ actors: { modelTurn } });
    const actor = createActor(machine, { input: makeStarted(makeConfig()) }).start();
    const end = await waitFor(actor, ({ status }) => status === 'done');
    expect(end.value).toBe('finished');
    expect(end.context.answer).toEqual({ text: 'hi' });
  });
});
