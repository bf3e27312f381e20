import type { ModelAdapter } from '../../../protocol/adapter.ts';
import type { ModelTurn, TurnDelta } from '../../../protocol/turn.ts';

type Pushed = TurnDelta | Error;

/** A model whose streams say what the test pushes, when it pushes it. An error fails the current turn. */
export class PushedModel implements ModelAdapter {
  readonly provider = 'pushed';
  readonly model = 'pushed';
  readonly capabilities = {
    streaming: true,
    parallelToolCalls: true,
    reasoningReplay: false,
    serverTools: false,
    structuredOutput: 'instructions' as const,
    continuation: false,
    usage: 'unknown' as const,
  };
  readonly #queue: Pushed[] = [];
  #wake = () => {};

  push(...pushed: Pushed[]): void {
    this.#queue.push(...pushed);
    this.#wake();
  }

  /** Ends the turn with a text and calls. */
  end(text: string, toolCalls: ModelTurn['toolCalls'] = []): void {
    const calls = toolCalls.map(({ callId, name, arguments: written }) => ({
      type: 'tool_call' as const,
      callId,
      name,
      arguments: written,
    }));
    const message = {
      type: 'message' as const,
      role: 'assistant' as const,
      content: [{ type: 'text' as const, text }],
    };
    const turn: ModelTurn = {
      text,
      reasoning: '',
      toolCalls,
      finishReason: toolCalls.length > 0 ? 'tool_calls' : 'stop',
      usage: null,
      model: this.model,
      items: [...(text === '' ? [] : [message]), ...calls],
    };
    this.push({ type: 'turn', turn });
  }

  async generate(): Promise<ModelTurn> {
    for await (const delta of this.stream()) if (delta.type === 'turn') return delta.turn;
    throw new Error('no turn');
  }

  async *stream(_request?: unknown, { signal }: { signal?: AbortSignal } = {}): AsyncGenerator<TurnDelta> {
    signal?.addEventListener('abort', () => this.#wake());
    for (;;) {
      const pushed = this.#queue.shift();
      if (signal?.aborted) return;
      if (pushed instanceof Error) throw pushed;
      if (pushed !== undefined) {
        yield pushed;
        if (pushed.type === 'turn') return;
        continue;
      }
      await new Promise<void>(resolve => {
        this.#wake = resolve;
      });
    }
  }
}
