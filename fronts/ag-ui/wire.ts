import type { Event, EventType } from '@ag-ui/core';
import * as z from 'zod';
import type { JsonValue } from '../../protocol/json.ts';

const json = z.custom<JsonValue>(value => value !== undefined);
const id = z.string().min(1).max(500);
const content = z.union([z.string(), z.array(json)]);

const message = z.discriminatedUnion('role', [
  z.object({ role: z.enum(['user', 'system', 'developer']), id, content }),
  z.object({
    role: z.literal('assistant'),
    id,
    content: z.exactOptional(z.string()),
    toolCalls: z.exactOptional(
      z.array(z.object({ id, function: z.object({ name: z.string(), arguments: z.string() }) })),
    ),
  }),
  z.object({ role: z.literal('tool'), id, toolCallId: id, content, error: z.exactOptional(z.string()) }),
  z.object({ role: z.literal('reasoning'), id }),
  z.object({ role: z.literal('activity'), id }),
]);
export type InputMessage = z.infer<typeof message>;

const resumeEntry = z.object({
  interruptId: z.string().min(1).max(2_000),
  status: z.enum(['resolved', 'cancelled']),
  payload: z.exactOptional(z.custom<JsonValue>()),
});
export type ResumeEntry = z.infer<typeof resumeEntry>;

const declaredTool = z.object({
  name: z.string().min(1).max(64),
  description: z.string().default(''),
  parameters: z.exactOptional(z.custom<JsonValue>()),
});
export type DeclaredTool = z.infer<typeof declaredTool>;

/** The body of a request, AG-UI's RunAgentInput. Unused members are ignored. */
export const runInputSchema = z.object({
  threadId: z.string().min(1).max(256),
  runId: z.string().min(1).max(256),
  parentRunId: z.exactOptional(z.string().max(256)),
  state: z.exactOptional(z.custom<JsonValue>()),
  messages: z.array(message).max(10_000).default([]),
  tools: z.array(declaredTool).max(200).default([]),
  context: z
    .array(z.object({ description: z.string().max(10_000), value: z.string().max(1_000_000) }))
    .max(100)
    .default([]),
  forwardedProps: z.exactOptional(z.custom<JsonValue>()),
  resume: z.exactOptional(z.array(resumeEntry).max(1_000)),
});

/** A request to run an agent on a thread. */
export type RunInput = z.infer<typeof runInputSchema>;

/** @internal */
export type { Interrupt, Message, TokenUsage } from '@ag-ui/core';

type Written<Known> = Known extends { type: EventType }
  ? Omit<Known, 'type'> & { type: `${Known['type']}` }
  : never;

/** An AG-UI 1.0 event as serialized. Its `type` is a plain string, so that `@ag-ui/core` is not needed at run time. @internal */
export type AgUiEvent = Written<Event>;
