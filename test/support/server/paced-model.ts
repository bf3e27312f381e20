import type { ModelAdapter } from '../../../protocol/adapter.ts';
import type { ModelTurn, TurnDelta } from '../../../protocol/turn.ts';

/** A model that streams the given chunks, and waits at each `gate` until the gates open. */
export class PacedModel implements ModelAdapter {
  readonly provider = 'paced';
  readonly model = 'paced';
  readonly capabilities = {
    streaming: true,
    parallelToolCalls: false,
    reasoningReplay: false,
    serverTools: false,
    structuredOutput: 'instructions' as const,
    continuation: false,
    usage: 'unknown' as const,
  };
  readonly #steps: readonly (string | 'gate')[];
  #open = () => {};
  #reach = () => {};
  /** Settles when the first gate is reached. */
  readonly reached: Promise<void>;
  readonly #opened: Promise<void>;

  constructor(steps: readonly (string | 'gate')[]) {
    this.#steps = steps;
    this.reached = new Promise(resolve => {
      this.#reach = resolve;
    });
    this.#opened = new Promise(resolve => {
      this.#open = resolve;
    });
  }

  /** Opens all gates for good. */
  open(): void {
    this.#open();
  }

  get text(): string {
    return this.#steps.filter(step => step !== 'gate').join('');
  }

  async generate(): Promise<ModelTurn> {
    throw new Error('this model only streams');
  }

  async *stream(): AsyncGenerator<TurnDelta> {
    for (const step of this.#steps) {
      if (step !== 'gate') {
        yield { type: 'text', text: step };
        continue;
      }
      this.#reach();
      await this.#opened;
    }
    const { text, model } = this;
    const items = [
      { type: 'message' as const, role: 'assistant' as const, content: [{ type: 'text' as const, text }] },
    ];
    const turn = { text, model, items, reasoning: '', toolCalls: [], usage: null };
    yield { type: 'turn', turn: { ...turn, finishReason: 'stop' } };
  }
}
