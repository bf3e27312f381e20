import { EngineError } from '../protocol/error.ts';
import type { SideEffect } from '../protocol/tool.ts';
import { isApprovalRule, refuseUnknownApproval } from './approval-rule.ts';

/** The longest delay of `setTimeout` in ms; a longer one fires immediately. https://nodejs.org/api/timers.html */
const LONGEST_TIMEOUT_MS = 2 ** 31 - 1;

const SIDE_EFFECTS: readonly unknown[] = ['none', 'idempotent', 'once'] satisfies SideEffect[];

type ToolSettings = {
  name: string;
  sideEffect: SideEffect;
  retries: number;
  repeatable?: boolean | undefined;
  tags?: unknown;
  timeoutMs?: number | undefined;
  maxResultBytes?: number | undefined;
  approval?: unknown;
  background?: unknown;
  run?: unknown;
  prepare?: unknown;
};

/** Throws an `EngineError` `agent-invalid` that names the tool, the setting, the expected and the actual value. */
export function checkToolSettings(tool: ToolSettings): void {
  if (typeof tool.name !== 'string' || !/^[a-zA-Z0-9_-]{1,64}$/.test(tool.name)) {
    throw new EngineError(
      'agent-invalid',
      `expected a tool name of 1 to 64 letters, digits, "_" or "-" (accepted by every provider), got ${JSON.stringify(tool.name)?.slice(0, 200)}.`,
    );
  }
  if (!SIDE_EFFECTS.includes(tool.sideEffect)) {
    throwInvalid(
      tool,
      `expected sideEffect "none", "idempotent" or "once", got ${JSON.stringify(tool.sideEffect)}.`,
    );
  }
  if (!Number.isInteger(tool.retries) || tool.retries < 0) {
    throwInvalid(tool, `expected retries to be an integer of 0 or more, got ${tool.retries}.`);
  }
  if (tool.retries > 0 && tool.sideEffect === 'once') {
    throwInvalid(
      tool,
      `a tool with sideEffect "once" cannot have retries, got ${tool.retries}. ` +
        'Remove retries, or set sideEffect to "none" or "idempotent" if a second execution is safe.',
    );
  }
  if (tool.timeoutMs !== undefined && !isTimeout(tool.timeoutMs)) {
    throwInvalid(
      tool,
      `expected timeoutMs above 0 and at most ${LONGEST_TIMEOUT_MS}, got ${tool.timeoutMs}.`,
    );
  }
  if (tool.repeatable !== undefined && typeof tool.repeatable !== 'boolean')
    throwInvalid(tool, `expected repeatable to be a boolean, got ${JSON.stringify(tool.repeatable)}.`);
  if (tool.repeatable === true && tool.sideEffect !== 'once')
    throwInvalid(
      tool,
      'repeatable is for sideEffect "once" alone: calls of other tools may always be repeated.',
    );
  if (tool.background !== undefined && typeof tool.background !== 'boolean')
    throwInvalid(tool, `expected background to be a boolean, got ${JSON.stringify(tool.background)}.`);
  if (tool.background === true && tool.run === undefined)
    throwInvalid(tool, 'background needs a run: the caller does the work of a client tool.');
  if (tool.prepare !== undefined && tool.run === undefined)
    throwInvalid(tool, 'prepare needs a run: the caller does the work of a client tool.');
  if (tool.tags !== undefined && !isTags(tool.tags))
    throwInvalid(
      tool,
      `expected tags to be a list of up to ${MOST_TAGS} words of letters, digits, "_", ".", ":" or "-", got ${JSON.stringify(tool.tags)}.`,
    );
  const { maxResultBytes } = tool;
  if (maxResultBytes !== undefined && !(Number.isSafeInteger(maxResultBytes) && maxResultBytes > 0)) {
    throwInvalid(tool, `expected maxResultBytes to be a positive integer, got ${maxResultBytes}.`);
  }
  const { approval } = tool;
  refuseUnknownApproval(tool.name, approval);
  if (approval !== undefined && !isApprovalRule(approval)) {
    throwInvalid(
      tool,
      `expected approval to be a boolean, a function, { required, reason?, by?, not?, quorum?, expiresInMs? } or { pure: true, rule }, got ${JSON.stringify(tool.approval)}.`,
    );
  }
}

const MOST_TAGS = 32;
const TAG = /^[\w.:-]{1,128}$/;

export function isTags(value: unknown): value is readonly string[] {
  return (
    Array.isArray(value) &&
    value.length <= MOST_TAGS &&
    value.every(tag => typeof tag === 'string' && TAG.test(tag))
  );
}

/** Whether the value is a number of milliseconds that a timer can wait: above 0 and at most 2^31 - 1. */
export function isTimeout(ms: unknown): ms is number {
  return typeof ms === 'number' && ms > 0 && ms <= LONGEST_TIMEOUT_MS;
}

function throwInvalid(tool: ToolSettings, problem: string): never {
  throw new EngineError('agent-invalid', `tool "${tool.name}": ${problem}`);
}
