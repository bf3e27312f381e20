import type { RunModel } from '../run-model.ts';
import { ApiError, type RunView, request } from '../runs-api.ts';
import { actingAs } from './acting-as.ts';

/** Submits a command to the run. Resolves to an error message for the person, or `null` on success. */
export type Act = (command: string, body?: object) => Promise<string | null>;

/** Makes the function that submits commands. It updates `model` with the response, then calls `look`. */
export function makeAct(model: RunModel, look: () => void): Act {
  return async (command, body = {}) => {
    try {
      const path = `/runs/${encodeURIComponent(model.runId)}/${command}`;
      model.takeView(await request<RunView>(path, { ...actingAs(), ...body }));
      return null;
    } catch (error) {
      return describeRefusal(error);
    } finally {
      look();
    }
  };
}

function describeRefusal(error: unknown): string {
  if (!(error instanceof ApiError)) return error instanceof Error ? error.message : String(error);
  if (error.code !== 'already-decided') return error.message;
  return `${error.by ?? 'Another person'} already decided. ${error.message}`;
}
