import type { Hono } from 'hono';
import type { JsonObject } from '../../protocol/json.ts';
import type { RunsEnv } from '../runs-env.ts';
import { ResponsesError } from './api-error.ts';
import type { ResponsesService } from './responses-service.ts';

/** Adds OpenAI's `/v1/models`: the models that requests of every protocol may name. */
export function addModelRoutes(app: Hono<RunsEnv>, service: ResponsesService): void {
  app.get('/v1/models', c => c.json({ object: 'list', data: service.models.map(modelObject) }));
  app.get('/v1/models/:id', c => {
    const id = c.req.param('id');
    if (service.models.includes(id)) return c.json(modelObject(id));
    throw new ResponsesError(`The model '${id}' does not exist.`, {
      status: 404,
      code: 'model_not_found',
      param: 'model',
    });
  });
}

/** `created` is 0, because the configuration does not say when a model was made. The owner hides the provider. */
function modelObject(id: string): JsonObject {
  return { id, object: 'model', created: 0, owned_by: 'agentchart' };
}
