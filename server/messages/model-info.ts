import type { ModelInfo } from '@anthropic-ai/sdk/resources/models';
import type { Context, Hono } from 'hono';
import type { GatewayService } from '../gateway/gateway-service.ts';
import { notFound } from '../openai-error.ts';
import type { RunsEnv } from '../runs-env.ts';
import { describeMessageError } from './message-error.ts';

type Models = GatewayService['models'];

/** Answers Anthropic's clients, which are known by their version header; leaves the others to the routes that follow. */
export function addModelRoutes(app: Hono<RunsEnv>, models: Models): void {
  app.get('/v1/models', async (c, next) => {
    if (!isForAnthropic(c)) return await next();
    const data = models.listed.map(id => modelInfo(id, models));
    return c.json({ data, has_more: false, first_id: data[0]?.id ?? null, last_id: data.at(-1)?.id ?? null });
  });
  app.get('/v1/models/:id', async (c, next) => {
    if (!isForAnthropic(c)) return await next();
    const id = c.req.param('id');
    if (models.listed.includes(id)) return c.json(modelInfo(id, models));
    const thrown = notFound(`model: ${id}`, 'model_not_found', 'model');
    return c.json(describeMessageError(thrown, c.res.headers.get('x-request-id') ?? '').body, 404);
  });
}

function isForAnthropic(c: Context<RunsEnv>): boolean {
  return c.req.header('anthropic-version') !== undefined;
}

const UNKNOWN = { capabilities: null, line: null, max_tokens: null, deprecated_at: null, retires_at: null };

function modelInfo(id: string, models: Models): ModelInfo {
  return {
    id,
    type: 'model',
    display_name: id,
    created_at: new Date(0).toISOString(),
    lifecycle: 'active',
    max_input_tokens: models.contextWindowOf(id) ?? null,
    ...UNKNOWN,
  };
}
