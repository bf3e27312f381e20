import { systemHost } from '../../engine/host/host.ts';
import { warn } from '../../engine/host/warn.ts';
import { messageOf } from '../../protocol/error.ts';
import { refuseUnknownOptions } from '../../protocol/options/refuse-unknown.ts';
import { Admission } from '../access/admission.ts';
import { type Agents, listAgents } from '../agent-names.ts';
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
  const { authorize, bodyBytes: maxBytes = BODY_BYTES, log = warn } = options;
  const all = listAgents(agents);
  const runs = createRunsApi({
    store: all[0].store,
    agents: new Map(all.map(agent => [agent.name, agent])),
    admission: new Admission({ host: systemHost }),
    hasToken: authorize !== undefined,
    bodyLimits: { maxBytes },
    host: systemHost,
    log,
  });
  runs.pickUp().catch(error => log(`Cannot resume runs: ${messageOf(error)}`));
  const api = { ...runs, paths: ['/story'], routes: STORY_ROUTES, add: runs.addStories };
  return handlerOf([api], options, { log });
}
