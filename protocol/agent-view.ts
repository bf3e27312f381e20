import * as z from 'zod/mini';
import { limitsSchema } from './config.ts';
import type { JsonObject } from './json.ts';

function described<Schema extends z.ZodMiniType>(schema: Schema, description: string): Schema {
  z.globalRegistry.add(schema, { description });
  return schema;
}

const summaryFields = {
  name: z.string(),
  description: z.exactOptional(z.string()),
  version: z.exactOptional(z.string()),
  models: z.array(z.object({ provider: z.string(), model: z.string() })),
};

export const agentSummarySchema = z.object({
  ...summaryFields,
  tools: z.exactOptional(
    described(z.int(), 'Absent if counting them requires a connection to a tool server.'),
  ),
});
export type AgentSummary = z.infer<typeof agentSummarySchema>;

const toolSummarySchema = z.object({
  name: z.string(),
  description: z.string(),
  inputSchema: z
    .custom<JsonObject>()
    .register(z.globalRegistry, { type: 'object', description: 'The JSON Schema of the input.' }),
  sideEffect: z.enum(['none', 'idempotent', 'once']),
  approval: described(z.enum(['always', 'never', 'depends']), 'depends: a function decides for each call.'),
  reason: z.exactOptional(z.string()),
  reconcilable: described(z.boolean(), 'Whether the tool can find out the outcome of a call in doubt.'),
  executedBy: z.enum(['engine', 'client', 'agent']),
  agent: z.exactOptional(described(z.string(), 'The sub-agent whose run each call is.')),
  retries: z.int(),
  timeoutMs: z.exactOptional(z.number()),
  server: z.exactOptional(described(z.string(), 'The label of the tool server that provides the tool.')),
  says: described(z.string(), 'Its effects, its approval and who runs it, in words.'),
});
export type ToolSummary = z.infer<typeof toolSummarySchema>;

export const agentViewSchema = z.object({
  ...summaryFields,
  forkModels: described(
    z.array(z.string()),
    'The models that its runs can be forked on, as provider:model. The first is its own.',
  ),
  instructions: z.exactOptional(
    described(z.nullable(z.string()), 'The system prompt; null if a function writes it for each run.'),
  ),
  tools: z.array(toolSummarySchema),
  sources: described(z.int(), 'The number of tool servers. Their tools are known only after a connection.'),
  limits: limitsSchema,
  onLimit: z.enum(['answer', 'stop']),
  onUnknownUsage: described(
    z.enum(['stop', 'estimate']),
    'What a limit on tokens or cost does when a turn reports no usage.',
  ),
  finalAnswer: z.enum(['live', 'held', 'separate']),
  onMessage: z.enum(['queue', 'supersede']),
  toolConcurrency: z.int(),
  needsRunContext: z.boolean(),
  hasOutput: z.boolean(),
  facts: described(
    z.array(z.object({ name: z.string(), value: z.string() })),
    'Its models, its limits and how it answers, in words.',
  ),
});
export type AgentView = z.infer<typeof agentViewSchema>;
