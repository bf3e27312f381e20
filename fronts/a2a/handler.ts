import { warn } from '../../engine/host/host.ts';
import { refuseUnknownOptions } from '../../protocol/options/refuse-unknown.ts';
import type { Agents } from '../../server/agent-names.ts';
import { HANDLER_NAMES, type Handler, type HandlerOptions, handlerOf } from '../../server/handler.ts';
import { serveRunsOf } from '../served/served-runs.ts';
import { createA2aApi } from './a2a-api.ts';

/**
 * Creates a handler of A2A 1.0: each agent at `…/a2a/NAME`, as JSON-RPC and REST, with its card below; the card of the
 * first agent also at `…/.well-known/agent-card.json`. Drives runs in this process, and resumes those whose process is
 * gone.
 *
 * @example
 * const handler = createA2aHandler(agent, { authorize });
 * app.all('/a2a/*', c => handler(c.req.raw)).get('/.well-known/*', c => handler(c.req.raw));
 */
export function createA2aHandler(agents: Agents, options: HandlerOptions = {}): Handler {
  refuseUnknownOptions('createA2aHandler', options, HANDLER_NAMES);
  const { authorize, log = warn } = options;
  const api = createA2aApi({ runs: serveRunsOf(agents, log), hasToken: authorize !== undefined, log });
  return handlerOf([api], options, { log });
}
