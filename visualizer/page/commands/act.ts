import type { RunModel } from '../run-model.ts';
import { ApiError, type RunView, request } from '../runs-api.ts';
import { actingAs } from './acting-as.ts';

/** Sends a command of the run; resolves to what there is to tell the person when it was refused, else to `null`. */
export type Act = (command: string, body?: object) => Promise<string | null>;

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
  return `${error.by === undefined ? 'Somebody' : error.by} decided before you. ${error.message}`;
}
