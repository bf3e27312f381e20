import type { RecordedTool } from '../../../engine/replay/record-run.ts';
import { InDoubt } from '../../../protocol/error.ts';
import type { QualifiedCall } from '../../../protocol/event.ts';
import type { Tool } from '../../../protocol/tool.ts';
import { type Stage, speakerOf } from './stage.ts';

/** What is known of a call by its id, and when it was qualified. */
export type KnownCall = (callId: string) => { call: QualifiedCall; at: number } | undefined;

/** A tool that takes any input, and gives each call what it gave then. */
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
        ...(reason === undefined ? {} : { reason }),
        ...(expiresAt === undefined ? {} : { expiresInMs: expiresAt - found.at }),
      };
    },
    ...(executedBy === 'client' ? {} : { run: (_, { callId, signal }) => giveResult(stage, callId, signal) }),
  };
}

async function giveResult(stage: Stage, callId: string, signal: AbortSignal): Promise<unknown> {
  const event = await stage.ask(speakerOf(callId), signal);
  if (event.type === 'tool.doubted') throw new InDoubt(event.reason);
  if (event.type !== 'tool.settled') throw new Error(`A tool has no line in ${event.type}.`);
  if (!event.isError) return event.output;
  throw new Error(typeof event.output === 'string' ? event.output : JSON.stringify(event.output));
}
