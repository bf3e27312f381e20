import type { Call } from '../../machines/context.ts';
import { dutiesOf } from '../../machines/duties.ts';
import { digestCall, serverDigest } from '../../protocol/content/digest.ts';
import { messageOf } from '../../protocol/error.ts';
import type { QualifiedCall } from '../../protocol/event.ts';
import { assertBounded, type JsonValue, omitUndefined, toJson } from '../../protocol/json.ts';
import type { HistoryCall, PastCall } from '../../protocol/rule.ts';
import { type ApprovalCall, type ReadApproval, readApproval, type Tool } from '../../protocol/tool.ts';
import type { ToolCall } from '../../protocol/turn.ts';
import { combineApprovals, type Judged } from './guardrails.ts';
import { askOthers, type CallJudge, historyBefore, judgeCalls } from './judge-calls.ts';

type QualifyOptions = {
  runId: string;
  runContext: unknown;
  now: number;
  tools: ReadonlyMap<string, Tool>;
  /** Judges inputs, of calls that a model made. */
  judge?: JudgeInput;
  rules: RuleParts;
};

/** Judges the valid input of a call. Never rejects. */
export type JudgeInput = (call: {
  callId: string;
  name: string;
  input: JsonValue;
}) => Promise<Judged<JsonValue>>;

/** What the rules need. `past` is asked only if something depends on it. */
type RuleParts = Pick<CallJudge, 'rules' | 'context'> & {
  past(): Promise<readonly PastCall[]>;
  /** The open calls of the round that the calls join: one with the id of a call is what that call replaces. */
  open?: readonly Call[];
};

/**
 * A turn's calls with all that the chart has to know about them. An approval predicate that throws or errs gates its call,
 * and so does a rule: for others than who started the run, if that is known.
 */
export async function qualifyCalls(
  made: readonly ToolCall[],
  options: QualifyOptions,
): Promise<QualifiedCall[]> {
  const calls = made.filter(call => call.executedBy !== 'provider');
  const { tools, now, rules } = options;
  const isRead = rules.rules.length > 0 || calls.some(({ name }) => tools.get(name)?.readsHistory === true);
  const judge: CallJudge = { ...rules, past: isRead ? await rules.past() : [], tools, now };
  const round = calls.map(readCall);
  const qualified = await Promise.all(
    calls.map(call => qualifyCall(call, options, () => historyBefore(readCall(call), round, judge))),
  );
  return judgeCalls(qualified, rules.open ?? [], judge);
}

function readCall({ callId, name, input, arguments: text }: ToolCall) {
  return { callId, name, input: input ?? text };
}

async function qualifyCall(
  call: ToolCall,
  options: QualifyOptions,
  history: () => readonly HistoryCall[],
): Promise<QualifiedCall> {
  const { callId, name } = call;
  const { runId, runContext, tools } = options;
  const tool = tools.get(name);
  const tooDeep = depthFault(call.input);
  let input: JsonValue = tooDeep === undefined ? (call.input ?? call.arguments) : call.arguments;
  const made = () => ({ callId, name, input, digest: digestCall(name, input) });
  const invalid = (error: string) => ({ ...made(), ...INVALID, error: `Not run: ${error}` });
  if (tooDeep !== undefined) return invalid(`The arguments are not valid: ${tooDeep}.`);
  if (tool === undefined) return invalid(describeUnknown(name, tools));
  if (call.error !== undefined) return invalid(`The arguments are not valid: ${call.error}`);
  const validating = tool.validate(input);
  let validation = 'then' in validating ? await validating : validating;
  if (!validation.valid) return invalid(`The arguments are not valid: ${validation.message}`);
  const judged = await options.judge?.({ callId, name, input });
  if (judged?.type === 'blocked') return invalid(judged.reason);
  const isReplaced = judged?.isReplaced === true;
  if (isReplaced) {
    validation = await tool.validate(judged.value);
    if (!validation.valid)
      return invalid(`A guardrail made arguments that are not valid: ${validation.message}`);
    input = judged.value;
  }
  const asked = { callId, runId, name, input, runContext };
  const asking = askApproval(tool, Object.defineProperty(asked, 'history', { get: history }) as ApprovalCall);
  const required = 'then' in asking ? await asking : asking;
  const approval = withAsked(
    required.hasFailed ? askOthers(required, options.rules) : required,
    judged?.asked,
  );
  if ('fault' in approval) return invalid(approval.fault);
  return {
    ...made(),
    sideEffect: tool.sideEffect,
    reconcilable: tool.reconcile !== undefined,
    executedBy: tool.run === undefined ? 'client' : 'engine',
    gate: approval.required,
    ...omitUndefined({
      readDigest: tool.sideEffect === 'once' ? digestRead(name, input, validation.value) : undefined,
      toolDigest: serverDigest(tool),
      replaced: isReplaced ? (true as const) : undefined,
      repeatable: tool.repeatable === true ? (true as const) : undefined,
      maxResultBytes: tool.maxResultBytes,
      answers: tool.answers,
      background: tool.background === true ? (true as const) : undefined,
      tags: tool.tags && [...tool.tags],
      reason: approval.reason,
      ...(approval.required && dutiesOf(approval)),
      expiresAt: approval.expiresInMs === undefined ? undefined : options.now + approval.expiresInMs,
    }),
  };
}

function withAsked(
  required: ReadApproval,
  asked: ReadApproval | undefined,
): ReadApproval | { fault: string } {
  if (asked === undefined) return required;
  try {
    return combineApprovals(required, asked);
  } catch (error) {
    return { fault: messageOf(error) };
  }
}

/** Two inputs that the tool reads alike do the same. What JSON cannot represent is compared as it was written. */
function digestRead(name: string, input: JsonValue, value: unknown): string | undefined {
  if (value === input) return undefined;
  try {
    const digest = digestCall(name, toJson(value));
    return digest === digestCall(name, input) ? undefined : digest;
  } catch {
    return undefined;
  }
}

const INVALID = { sideEffect: 'none', reconcilable: false, executedBy: 'engine', gate: false } as const;

/** Digests, schemas and stores process values recursively, so deeper input is rejected first. */
function depthFault(input: JsonValue | undefined): string | undefined {
  try {
    assertBounded(input);
  } catch (error) {
    return messageOf(error);
  }
  return undefined;
}

function describeUnknown(name: string, tools: ReadonlyMap<string, Tool>): string {
  const names = [...tools].flatMap(([known, { deferred }]) => (deferred ? [] : known));
  const known = names.length === 0 ? 'There are no tools.' : `The tools are: ${names.join(', ')}.`;
  return `There is no tool "${name}". ${known}`;
}

/** What the approval of a tool says of a call. One that fails asks for an approval; `hasFailed` then. */
export function askApproval(tool: Tool, call: ApprovalCall): AskedApproval | Promise<AskedApproval> {
  try {
    const given = tool.approval(call);
    return typeof given === 'boolean' ? { required: given } : readAnswer(given);
  } catch (error) {
    return failedApproval(`failed: ${messageOf(error)}`);
  }
}

type AskedApproval = ReadApproval & { hasFailed?: true };

async function readAnswer(given: unknown): Promise<AskedApproval> {
  try {
    return readApproval(await given) ?? failedApproval('gave neither a boolean nor a valid { required }');
  } catch (error) {
    return failedApproval(`failed: ${messageOf(error)}`);
  }
}

function failedApproval(why: string): AskedApproval {
  return { required: true, reason: `the approval predicate ${why}`, hasFailed: true };
}

/** New ids, by index, for calls whose id is in `taken`: the id with a number. Adds the ids of all calls to `taken`. */
export function makeIdsUnique(calls: readonly ToolCall[], taken: Set<string>): ReadonlyMap<number, string> {
  const copies = new Map<string, number>();
  const renamed = new Map<number, string>();
  for (const [index, { callId }] of calls.entries()) {
    let unique = callId;
    let copy = copies.get(callId) ?? 1;
    while (taken.has(unique)) {
      copy += 1;
      unique = `${callId}_${copy}`;
    }
    copies.set(callId, copy);
    taken.add(unique);
    if (unique !== callId) renamed.set(index, unique);
  }
  return renamed;
}
