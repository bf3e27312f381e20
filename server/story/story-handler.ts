import { warn } from '../../engine/host/host.ts';
import { refuseUnknownOptions } from '../../protocol/options/refuse-unknown.ts';
import { type Agents, byName, listAgents } from '../agent-names.ts';
import { BODY_BYTES, HANDLER_NAMES, type Handler, type HandlerOptions, handlerOf } from '../handler.ts';
import { createRunsApi } from '../runs/runs-api.ts';
import { STORY_ROUTES } from './story-table.ts';

/**
 * Creates a handler of runs as lines of JSON (`StoryLine`): `POST …/story` starts a run, `GET …/story/RUN` follows one from
 * any entry, `POST …/story/RUN` answers what it waits for or sends a message. Drives runs in this process, and resumes those
 * whose process is gone. Closing a request does not cancel its run.
 *
 * @example
 * const handler = createStoryHandler(agent, { authorize });
 * app.all('/story/*', c => handler(c.req.raw));
 */
export function createStoryHandler(agents: Agents, options: HandlerOptions = {}): Handler {
  refuseUnknownOptions('createStoryHandler', options, HANDLER_NAMES);
  const { bodyBytes: maxBytes = BODY_BYTES, log = warn } = options;
  const all = listAgents(agents);
  const runs = createRunsApi({ store: all[0].store, agents: byName(all), bodyLimits: { maxBytes }, log });
  runs.recover();
  const api = { ...runs, paths: ['/story'], routes: STORY_ROUTES, add: runs.addStories };
  return handlerOf([api], options, { log });
}
