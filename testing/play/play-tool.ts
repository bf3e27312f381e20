import type { RecordedTool } from '../../engine/replay/record-run.ts';
import { InDoubt } from '../../protocol/error.ts';
import type { QualifiedCall } from '../../protocol/event.ts';
import { omitUndefined } from '../../protocol/json.ts';
import type { Tool } from '../../protocol/tool.ts';
import { type Stage, sourceOf } from './stage.ts';

/** Returns a recorded call by its id, and when it was qualified. */
type KnownCall = (callId: string) => { call: QualifiedCall; at: number } | undefined;

/** Returns a tool that accepts any input and repeats the recorded outcome of each call. */
export function playTool(
  stage: Stage,
  { name, sideEffect, executedBy }: RecordedTool,
  known: KnownCall,
): Tool {
  return {
    name,
    sideEffect,
    description: '',
    inputSchema: { type: 'object' },
    retries: 0,
    maxResultBytes: Number.MAX_SAFE_INTEGER,
    validate: value => ({ valid: true, value }),
    approval({ callId }) {
      const found = known(callId);
      if (found === undefined) return false;
      const { gate, reason, expiresAt } = found.call;
      return {
        required: gate,
        ...omitUndefined({ reason, expiresInMs: expiresAt === undefined ? undefined : expiresAt - found.at }),
      };
    },
    ...(executedBy === 'client'
      ? {}
      : { run: (_, { callId, signal }) => repeatResult(stage, callId, signal) }),
  };
}

async function repeatResult(stage: Stage, callId: string, signal: AbortSignal): Promise<unknown> {
  const event = await stage.request(sourceOf(callId), signal);
  if (event.type === 'tool.doubted') throw new InDoubt(event.reason);
  if (event.type !== 'tool.settled') throw new Error(`Expected an event of a tool call, got ${event.type}.`);
  if (!event.isError) return event.output;
  throw new Error(typeof event.output === 'string' ? event.output : JSON.stringify(event.output));
}
