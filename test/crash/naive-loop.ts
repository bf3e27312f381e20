import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setTimeout as delay } from 'node:timers/promises';
import type { ModelAdapter } from '../../protocol/adapter.ts';
import { ProviderError } from '../../protocol/error.ts';
import type { Item } from '../../protocol/item.ts';
import type { JsonValue } from '../../protocol/json.ts';
import { userMessage } from '../../protocol/message.ts';
import { type Tool, toolDefinition } from '../../protocol/tool.ts';
import type { ModelTurn } from '../../protocol/turn.ts';
import type { CrashAgent, Environment } from './crash-agent.ts';
import { RUN } from './drive-chart.ts';
import type { Outside } from './outside.ts';

type Call = Extract<Item, { type: 'tool_call' }>;
type Surroundings = { folder: string; outside: Outside } & Pick<Environment, 'reach'>;

/**
 * The control: a conventional agent loop. Its transcript is a table with a row per item, each durable
 * when written; the row of a tool is written after the tool ran. A process that dies between
 * the two leaves no trace of the call, and the next process runs it again.
 */
export async function driveNaively(
  scripted: CrashAgent,
  { folder, outside, reach }: Surroundings,
): Promise<string> {
  const rows = new Rows(join(folder, 'naive.db'), reach);
  const world: Environment = { outside, reach, onAct: () => {} };
  const tools = scripted.makeTools(world);
  const models = scripted.makeModels();
  if (rows.items.length === 0) rows.add(userMessage('go'));
  for (;;) {
    const { items } = rows;
    const open = items.filter(item => item.type === 'tool_call' && !hasResult(items, item.callId)) as Call[];
    if (open.length > 0) {
      const answer = async (call: Call) => rows.add(await runCall(scripted, call, tools, reach));
      await Promise.all(open.map(answer));
      continue;
    }
    const last = items.at(-1);
    if (last?.type === 'message' && last.role === 'assistant') break;
    reach('model.before');
    const turn = await callModels(models, inOrder(items), tools);
    reach('model.after');
    rows.add(...turn.items);
  }
  rows.close();
  return 'finished';
}

function hasResult(items: readonly Item[], callId: string): boolean {
  return items.some(item => item.type === 'tool_result' && item.callId === callId);
}

/** Results are stored in order of completion; a model reads them in call order. */
function inOrder(items: readonly Item[]): Item[] {
  const results = new Map(items.flatMap(item => (item.type === 'tool_result' ? [[item.callId, item]] : [])));
  const ordered: Item[] = [];
  let calls: string[] = [];
  for (const item of items) {
    if (item.type === 'tool_call') calls.push(item.callId);
    if (item.type !== 'tool_result') {
      ordered.push(item);
      continue;
    }
    for (const callId of calls) ordered.push(results.get(callId) ?? item);
    calls = [];
  }
  return ordered;
}

async function callModels(
  models: readonly ModelAdapter[],
  transcript: Item[],
  tools: readonly Tool[],
): Promise<ModelTurn> {
  const request = { transcript, tools: tools.map(toolDefinition), toolChoice: 'auto', settings: {} } as const;
  let last: unknown;
  for (const model of models) {
    for (let attempt = 0; attempt < 3; attempt += 1) {
      try {
        return await model.generate(request, { signal: new AbortController().signal });
      } catch (error) {
        last = error;
        if (!(error instanceof ProviderError) || !error.retryable) break;
      }
    }
  }
  throw last;
}

async function runCall(
  scripted: CrashAgent,
  { callId, name, arguments: text }: Call,
  tools: readonly Tool[],
  reach: Environment['reach'],
): Promise<Item> {
  const result = (output: JsonValue): Item => ({ type: 'tool_result', callId, output, isError: false });
  const tool = tools.find(known => known.name === name);
  let input: JsonValue = JSON.parse(text);
  if (tool?.run === undefined) return result('from the client');
  if (tool.subAgent !== undefined) return result('no agent here');
  if ((await tool.approval({ callId, runId: RUN, name, input, runContext: undefined })) !== false) {
    const decision = scripted.decide?.({ name, input }) ?? { type: 'approve' };
    if (decision.type === 'answer') return result(decision.output);
    if (decision.type !== 'approve') return result('refused');
    input = decision.input ?? input;
  }
  for (let left = tool.retries; ; left -= 1) {
    try {
      reach('tool.before');
      const { signal } = new AbortController();
      const context = {
        callId,
        runId: RUN,
        key: `${RUN}:${callId}`,
        signal,
        runContext: undefined,
        progress() {},
      };
      const output = await Promise.race([tool.run(input, context), giveUpAfter(tool.timeoutMs)]);
      reach('tool.after');
      return result(output as JsonValue);
    } catch (error) {
      if (left <= 0) return result(`failed: ${error}`);
    }
  }
}

async function giveUpAfter(ms: number | undefined): Promise<string> {
  if (ms === undefined) return await new Promise(() => {});
  return await delay(ms, 'it took too long');
}

class Rows {
  readonly #database: DatabaseSync;
  readonly #reach: Environment['reach'];
  readonly items: Item[];

  constructor(file: string, reach: Environment['reach']) {
    this.#database = new DatabaseSync(file);
    this.#reach = reach;
    this.#database.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL');
    this.#database.exec('CREATE TABLE IF NOT EXISTS items (seq INTEGER PRIMARY KEY, json TEXT)');
    const rows = this.#database.prepare('SELECT json FROM items ORDER BY seq').all();
    this.items = rows.map(({ json }) => JSON.parse(String(json)));
  }

  add(...items: Item[]): void {
    this.#reach('append.before');
    this.#database.exec('BEGIN');
    const insert = this.#database.prepare('INSERT INTO items (json) VALUES (?)');
    for (const item of items) insert.run(JSON.stringify(item));
    this.#database.exec('COMMIT');
    this.items.push(...items);
    this.#reach('append.after');
  }

  close(): void {
    this.#database.close();
  }
}
