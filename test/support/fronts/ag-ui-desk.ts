import type { AddressInfo } from 'node:net';
import { type BaseEvent, HttpAgent, type RunAgentParameters } from '@ag-ui/client';
import { EventSchema } from '@ag-ui/core/schemas';
import { serve } from '@hono/node-server';
import type { Agent } from '../../../agent/agent.ts';
import { type AgUiOptions, createAgUiHandler } from '../../../fronts/ag-ui/index.ts';

/** An agent behind AG-UI on a port of its own. */
export class AgUiDesk {
  readonly url: string;
  readonly #close: () => void;

  private constructor(url: string, close: () => void) {
    this.url = url;
    this.#close = close;
  }

  static async open(agent: Agent, options: AgUiOptions = {}): Promise<AgUiDesk> {
    const fetch = createAgUiHandler(agent, options);
    return await new Promise(resolve => {
      const server = serve({ fetch, port: 0, hostname: '127.0.0.1' }, ({ port }: AddressInfo) =>
        resolve(new AgUiDesk(`http://127.0.0.1:${port}/`, () => server.close())),
      );
    });
  }

  client(threadId: string, headers: Record<string, string> = {}): AgUiClient {
    return new AgUiClient(this.url, threadId, headers);
  }

  close(): void {
    this.#close();
  }
}

/** Called with the type of each event. */
type OnEvent = (type: string) => unknown;

type Resume = NonNullable<RunAgentParameters['resume']>;

/** The real client, which checks every event; it keeps the events of its last run. */
export class AgUiClient {
  readonly agent: HttpAgent;
  events: BaseEvent[] = [];
  /** How the last run failed, by RUN_ERROR. */
  error: string | undefined;

  constructor(url: string, threadId: string, headers: Record<string, string> = {}) {
    this.agent = new HttpAgent({ url, threadId, headers });
  }

  get state(): { state: string; status: string; calls: unknown[]; answer?: string } {
    return this.agent.state;
  }

  get interrupts() {
    return this.agent.pendingInterrupts;
  }

  get types(): string[] {
    return this.events.map(({ type }) => type);
  }

  /** The texts of the assistant, as the client has them. */
  get texts(): string[] {
    return this.agent.messages.flatMap(one => (one.role === 'assistant' && one.content ? [one.content] : []));
  }

  get results(): unknown[] {
    return this.agent.messages.flatMap(one => (one.role === 'tool' ? [one.content] : []));
  }

  of(type: string): Record<string, unknown>[] {
    return this.events.filter(event => event.type === type);
  }

  async say(text: string, parameters?: RunAgentParameters, onEvent?: OnEvent): Promise<void> {
    this.agent.addMessage({ id: crypto.randomUUID(), role: 'user', content: text });
    await this.run(parameters, onEvent);
  }

  async run(parameters: RunAgentParameters = {}, onEvent: OnEvent = () => {}): Promise<void> {
    this.events = [];
    this.error = undefined;
    await this.agent.runAgent(parameters, {
      onEvent: ({ event }) => {
        EventSchema.parse(event);
        this.events.push(structuredClone(event));
        onEvent(event.type);
      },
      onRunErrorEvent: ({ event }) => {
        this.error = event.message;
      },
    });
  }

  /** Answers every open interrupt with the payload, or with what it returns for the interrupt. */
  async resume(
    payload: unknown | ((interrupt: Resume[number] & { toolCallId?: string }) => unknown),
  ): Promise<void> {
    const resume = this.interrupts.map(interrupt => ({
      interruptId: interrupt.id,
      status: 'resolved' as const,
      payload: typeof payload === 'function' ? payload(interrupt) : payload,
    }));
    await this.run({ resume });
  }
}
