import { Chat } from '@ai-sdk/react';
import {
  DefaultChatTransport,
  isToolUIPart,
  lastAssistantMessageIsCompleteWithApprovalResponses,
  lastAssistantMessageIsCompleteWithToolCalls,
  type UIMessage,
} from 'ai';
import * as z from 'zod';
import type { Agent } from '../../../../agent/index.ts';
import { InDoubt, tool } from '../../../../agent/index.ts';
import { createChatHandler } from '../../../../fronts/ai-sdk-ui/index.ts';
import { omitUndefined } from '../../../../protocol/json.ts';

type Handler = (request: Request) => Promise<Response>;
type PageOptions = { id?: string; messages?: UIMessage[]; automatic?: boolean };

export const SECRET = 'postgres://admin:hunter2@db';

export const TOOLS = [
  tool({
    name: 'refund',
    description: 'Pays back.',
    input: z.object({ cents: z.number() }),
    approval: ({ input }) => ({ required: true, reason: `pays ${input.cents} cents` }),
    run: ({ cents }) => ({ refunded: cents }),
  }),
  tool({ name: 'look', description: 'Looks.', input: z.object({}), sideEffect: 'none', run: () => 'seen' }),
  tool({
    name: 'fail',
    description: 'Fails.',
    input: z.object({}),
    sideEffect: 'none',
    run: () => {
      throw new Error(`cannot reach ${SECRET}`);
    },
  }),
  tool({
    name: 'charge',
    description: 'Nobody knows whether it acted.',
    input: z.object({}),
    approval: true,
    run: () => {
      throw new InDoubt('the connection broke');
    },
  }),
  tool({ name: 'ask', description: 'The page asks.', input: z.object({}) }),
] as const;

/** The engine of `useChat`, without React, talking to a handler in this process. Counts its requests. */
export class ChatPage {
  readonly chat: Chat<UIMessage>;
  readonly requests: { method: string; url: string; body: string }[] = [];
  readonly errors: string[] = [];
  /** The data parts that came, also those that are not kept. */
  readonly seen: { type: string; data: unknown }[] = [];

  constructor(
    handler: Agent | Handler,
    { id = 'chat 1', messages = [], automatic = true }: PageOptions = {},
  ) {
    const handle = typeof handler === 'function' ? handler : createChatHandler(handler);
    const send = async (input: string | URL | Request, init: RequestInit = {}) => {
      const request = new Request(new URL(String(input), 'http://shop.example'), init);
      if (this.requests.length > 20) throw new Error('too many requests');
      this.requests.push({ method: request.method, url: request.url, body: String(init.body ?? '') });
      return await handle(request);
    };
    this.chat = new Chat({
      id,
      messages,
      transport: new DefaultChatTransport({ fetch: send }),
      onError: error => this.errors.push(error.message),
      onData: part => this.seen.push(structuredClone(part)),
      ...(automatic && {
        sendAutomaticallyWhen: given =>
          lastAssistantMessageIsCompleteWithApprovalResponses(given) ||
          lastAssistantMessageIsCompleteWithToolCalls(given),
      }),
    });
  }

  get messages(): UIMessage[] {
    return this.chat.messages;
  }

  get last(): UIMessage {
    const last = this.messages.at(-1);
    if (last === undefined) throw new Error('no message');
    return last;
  }

  /** The text of the last message. */
  get text(): string {
    return this.last.parts.flatMap(part => (part.type === 'text' ? [part.text] : [])).join('|');
  }

  /** `tool: state` of each call in a message, by default the last. */
  tools(message = this.last): string[] {
    return toolsIn(message).map(part => `${part.type}: ${part.state}`);
  }

  /** The data parts of a name in the last message. */
  data(name: string): unknown[] {
    return this.last.parts.flatMap(part =>
      part.type === `data-${name}` && 'data' in part ? [part.data] : [],
    );
  }

  /** The ids of the approvals that the page shows as open, in a message. */
  open(message = this.last): string[] {
    return toolsIn(message).flatMap(part => (part.state === 'approval-requested' ? [part.approval.id] : []));
  }

  /** Answers and waits until the page is idle. */
  async decide(approvalId: string | undefined, approved: boolean, reason?: string): Promise<void> {
    if (approvalId === undefined) throw new Error('no open approval');
    await this.chat.addToolApprovalResponse({
      id: approvalId,
      approved,
      ...omitUndefined({ reason }),
    });
    await this.idle();
  }

  async idle(): Promise<void> {
    do await new Promise(resolve => setTimeout(resolve, 5));
    while (this.chat.status === 'submitted' || this.chat.status === 'streaming');
  }
}

export function toolsIn(message: UIMessage) {
  return message.parts.filter(isToolUIPart);
}
