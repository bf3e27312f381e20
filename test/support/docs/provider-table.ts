import { azure } from '../../../adapters/azure.ts';
import { deepseek } from '../../../adapters/deepseek.ts';
import { modelFromEnv, providerNames } from '../../../adapters/model-from-env.ts';
import { ollama } from '../../../adapters/ollama.ts';
import { xai } from '../../../adapters/xai.ts';
import type { Capabilities, ModelAdapter } from '../../../protocol/adapter.ts';

const TABLE = /(<!-- providers:begin .*-->\n)[\s\S]*(<!-- providers:end -->)/;

/** Aliases, and entries that are not providers. */
const LEFT_OUT = new Set(['openai-responses', 'scripted']);

/** Providers without a default base URL, whose calls fail before they look for a key. */
const KEY_OPTIONAL = new Set(['harmony', 'vllm']);

/** A recent model, for providers whose capabilities depend on the model. */
const MODELS: Readonly<Record<string, string>> = {
  anthropic: 'claude-sonnet-4-5',
  openai: 'gpt-5.4',
  gemini: 'gemini-3.8-flash',
  'gemini-interactions': 'gemini-3.8-flash',
};

/** The other API of some providers, which only code can select. */
const OTHER_APIS: readonly [label: string, open: () => ModelAdapter][] = [
  ["`xai({ api: 'chat' })`", () => xai({ model: 'm', api: 'chat' })],
  ["`azure({ api: 'chat' })`", () => azure({ model: 'm', api: 'chat' })],
  ["`deepseek({ api: 'responses' })`", () => deepseek({ model: 'm', api: 'responses' })],
  ["`ollama({ api: 'chat' })`", () => ollama({ model: 'm', api: 'chat' })],
];

const COLUMNS: readonly [title: string, cell: (capabilities: Capabilities) => string][] = [
  ['streaming', ({ streaming }) => mark(streaming)],
  ['parallel calls', ({ parallelToolCalls }) => mark(parallelToolCalls)],
  ['reasoning replay', ({ reasoningReplay }) => mark(reasoningReplay)],
  ['server tools', ({ serverTools }) => mark(serverTools)],
  ['structured output', ({ structuredOutput }) => structuredOutput],
  ['continuation', ({ continuation }) => mark(continuation)],
  ['tool search', ({ toolSearch = false }) => mark(toolSearch)],
  ['usage', ({ usage }) => (usage === 'unknown' ? usage : mark(usage))],
];

/** Replaces the table of providers between its two marks in a document. Throws if a mark is missing. */
export async function insertProviderTable(document: string): Promise<string> {
  if (!TABLE.test(document)) {
    throw new Error('Expected the marks <!-- providers:begin … --> and <!-- providers:end -->.');
  }
  const table = await providerTable();
  return document.replace(TABLE, (_, begin, end) => `${begin}\n${table}\n\n${end}`);
}

/** The declared capabilities of every adapter, and the variables of its key and base URL. */
export async function providerTable(): Promise<string> {
  const named = providerNames()
    .filter(name => !LEFT_OUT.has(name))
    .map((name): [string, () => ModelAdapter] => [
      `\`${name}:MODEL\``,
      () => modelFromEnv(`${name}:${MODELS[name] ?? 'm'}`),
    ]);
  const titles = ['provider', ...COLUMNS.map(([title]) => title), 'key', 'base URL'];
  const rows = [titles, titles.map(() => '---')];
  for (const [label, open] of [...named, ...OTHER_APIS]) {
    const { keys, url, keyOptional, capabilities } = await variablesOf(open);
    const cells = COLUMNS.map(([, cell]) => cell(capabilities));
    rows.push([label, ...cells, `${keys.join(', ')}${keyOptional ? ' (optional)' : ''}`, url]);
  }
  return rows.map(row => `| ${row.join(' | ')} |`).join('\n');
}

function mark(can: boolean): string {
  return can ? '✓' : '–';
}

/** What an adapter declares in an empty environment, and the variables that it reads before its first call. */
async function variablesOf(
  open: () => ModelAdapter,
): Promise<{ keys: string[]; keyOptional: boolean; url: string; capabilities: Capabilities }> {
  const read = new Set<string>();
  let keyOptional = false;
  let capabilities: Capabilities;
  const environment = process.env;
  process.env = new Proxy<NodeJS.ProcessEnv>(
    {},
    {
      get(_, name) {
        if (typeof name === 'string') read.add(name);
        return undefined;
      },
    },
  );
  try {
    const adapter = open();
    capabilities = adapter.capabilities;
    await adapter
      .generate(
        { transcript: [], tools: [], toolChoice: 'none', settings: {} },
        { signal: AbortSignal.abort() },
      )
      .catch(error => {
        keyOptional = error.code === 'aborted' || KEY_OPTIONAL.has(error.provider);
      });
  } finally {
    process.env = environment;
  }
  const code = (name: string): string => `\`${name}\``;
  return {
    keyOptional,
    capabilities,
    keys: [...read].filter(name => /_KEY$/.test(name)).map(code),
    url: [...read]
      .filter(name => /_BASE_URL$/.test(name))
      .map(code)
      .join(', '),
  };
}
