import { loadRun } from '../engine/journal/load-run.ts';
import { readPages } from '../engine/journal/read-journal.ts';
import { listRecordedCalls } from '../engine/journal/recorded-calls.ts';
import { closeLedger } from '../machines/ledger.ts';
import type { JournalEntry } from '../protocol/event.ts';
import { isJsonObject, type JsonObject, type JsonValue, omitUndefined } from '../protocol/json.ts';
import type { Store } from '../protocol/store.ts';
import type { Tool } from '../protocol/tool.ts';
import { cutText } from '../text/cut-text.ts';

/** The name of the tool that reads the ledger; no other tool of an agent that compacts may have this name. */
const LEDGER_TOOL = 'read_ledger';

const DEEDS_A_PAGE = 25;
const LONGEST_QUOTE_BYTES = 2_000;

const INPUT: JsonObject = {
  type: 'object',
  properties: {
    tool: { type: 'string', description: 'Only calls of this tool.' },
    skip: {
      type: 'integer',
      minimum: 0,
      description: 'How many of the latest calls to leave out. Default 0.',
    },
  },
  additionalProperties: false,
};

/**
 * The tool with which a model reads all that was done in a run and in the runs that it continues: the calls with a side
 * effect that settled, or whose run ended before, the latest first. A compaction tells the model only the latest of them in full.
 */
export function ledgerTool(store: Store): Tool {
  return {
    name: LEDGER_TOOL,
    description: `Lists the calls with side effects that were made in this conversation, the latest first, with inputs, outcomes and times: ${DEEDS_A_PAGE} at a time.`,
    inputSchema: INPUT,
    sideEffect: 'none',
    retries: 0,
    fixedApproval: false,
    approval: () => false,
    validate: value =>
      isJsonObject(value) && isName(value.tool) && isCount(value.skip)
        ? { valid: true, value }
        : {
            valid: false,
            message: 'expected an object with the text "tool" and the whole number "skip", or none',
          },
    run: (input, { runId }) => listDeeds(store, runId, isJsonObject(input) ? input : {}),
  };
}

const isName = (value: JsonValue | undefined) => value === undefined || typeof value === 'string';

const isCount = (value: JsonValue | undefined) =>
  value === undefined || (typeof value === 'number' && Number.isSafeInteger(value) && value >= 0);

async function listDeeds(store: Store, runId: string, { tool, skip }: JsonObject): Promise<JsonValue> {
  const from = typeof skip === 'number' ? skip : 0;
  const page: JsonObject[] = [];
  let seen = 0;
  for (const record of (await store.chain(runId)).toReversed()) {
    const entries: JournalEntry[] = [];
    for await (const some of readPages(store, record.runId)) entries.push(...some.filter(isOfCall));
    const unknown =
      record.runId === runId ? new Map<string, number>() : await findUnknown(store, record.runId);
    for (const { callId, name, input, sideEffect, result } of listRecordedCalls(entries).toReversed()) {
      const at = result?.at ?? unknown.get(callId);
      if (sideEffect !== 'once' || at === undefined) continue;
      if (tool !== undefined && name !== tool) continue;
      seen += 1;
      if (seen <= from || page.length >= DEEDS_A_PAGE) continue;
      page.push({ tool: name, input: quote(input), ...describe(result), at: new Date(at).toISOString() });
    }
  }
  const next = from + page.length < seen ? from + page.length : undefined;
  return { calls: page, total: seen, ...omitUndefined({ skip: next }) };
}

function isOfCall({ event }: JournalEntry): boolean {
  return 'callId' in event || event.type === 'turn.completed' || event.type.endsWith('.edited');
}

/** When an ended run stopped waiting for its begun calls, by their ids: their outcome is unknown. */
async function findUnknown(store: Store, runId: string): Promise<Map<string, number>> {
  const { state } = await loadRun(store, runId);
  const { fresh } = closeLedger(state.context);
  return new Map(fresh.flatMap(({ callId, outcome, at }) => (outcome === 'unknown' ? [[callId, at]] : [])));
}

function describe(result: { output: JsonValue; isError: boolean } | undefined): JsonObject {
  if (result === undefined) return { outcome: 'unknown' };
  return { outcome: result.isError ? 'failed' : 'done', output: quote(result.output) };
}

function quote(value: JsonValue): JsonValue {
  const text = JSON.stringify(value);
  return text.length > LONGEST_QUOTE_BYTES ? cutText(text, LONGEST_QUOTE_BYTES) : value;
}
