import { EngineError } from '../protocol/error.ts';
import { optionNames, refuseUnknownOptions } from '../protocol/options/refuse-unknown.ts';
import {
  type Approval,
  type ApprovalCall,
  type CallView,
  type ReadApproval,
  readApproval,
  type Tool,
} from '../protocol/tool.ts';

/**
 * Whether a call needs a person's approval: a fixed answer, or a function of the call and the run's context. With
 * `pure: true` the function is synchronous, has no effects, and gives the same answer for the same input and run
 * context; `explore` then calls it, instead of trying both answers for every call.
 */
export type ApprovalRule<Input, RunContext = unknown> =
  | Approval
  | ((call: ApprovalCall<Input, RunContext>) => Approval | Promise<Approval>)
  | { pure: true; rule: (call: CallView<Input, RunContext>) => Approval };

export function fixedApproval<Input, RunContext>(
  rule: ApprovalRule<Input, RunContext>,
): Approval | undefined {
  return typeof rule === 'function' || isPure(rule) ? undefined : rule;
}

export function pureApproval<Input, RunContext>(
  rule: ApprovalRule<Input, RunContext>,
): Tool['pureApproval'] | undefined {
  return isPure(rule) ? call => rule.rule(call as CallView<Input, RunContext>) : undefined;
}

/** Whether the rule may read the history of a call. */
export function readsHistory(rule: unknown): true | undefined {
  return typeof rule === 'function' ? true : undefined;
}

/** Evaluates the rule, with the history of the call as it was `made`, once it is read. Rejects anything but a boolean or `{ required }`: a forgotten `return` fails. */
export async function applyApprovalRule<Input, RunContext>(
  rule: ApprovalRule<Input, RunContext>,
  call: CallView<Input, RunContext>,
  made: CallView & { history?: ApprovalCall['history'] } = call as CallView,
): Promise<ReadApproval> {
  const ask = isPure(rule) ? rule.rule : rule;
  const history = { get: () => made.history ?? [] };
  const view = Object.defineProperty({ ...call }, 'history', history) as ApprovalCall<Input, RunContext>;
  const answer: unknown = typeof ask === 'function' ? await ask(view) : ask;
  refuseUnknownApproval(call.name, answer);
  const approval = readApproval(answer);
  if (approval !== undefined) return approval;
  throw new EngineError(
    'agent-invalid',
    `tool "${call.name}": expected its approval function to return a boolean or { required, reason?, by?, not?, quorum?, expiresInMs? }, got ${describe(answer)}.`,
  );
}

const APPROVAL_NAMES = optionNames<Exclude<Approval, boolean>>()('required reason by not quorum expiresInMs');
const PURE_NAMES = optionNames<PureRule>()('pure rule');

/** Throws `agent-invalid` for an unknown member of a rule or of what its function returned. */
export function refuseUnknownApproval(tool: string, approval: unknown): void {
  if (typeof approval !== 'object' || approval === null) return;
  const known = 'pure' in approval ? PURE_NAMES : APPROVAL_NAMES;
  refuseUnknownOptions(`approval of tool "${tool}"`, approval, known);
}

export function isApprovalRule(value: unknown): boolean {
  return typeof value === 'function' || isPure(value) || readApproval(value) !== undefined;
}

type PureRule = Extract<ApprovalRule<never>, { pure: true }>;

function isPure<Rule>(rule: Rule): rule is Extract<Rule, { pure: true }> {
  if (typeof rule !== 'object' || rule === null) return false;
  const { pure, rule: ask }: Partial<PureRule> = rule;
  return pure === true && typeof ask === 'function';
}

function describe(value: unknown): string {
  return typeof value === 'object' && value !== null ? JSON.stringify(value) : String(value);
}
