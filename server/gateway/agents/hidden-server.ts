import type { Host } from '../../../engine/host/host.ts';
import { backOffMs } from '../../../protocol/back-off.ts';
import { messageOf } from '../../../protocol/error.ts';
import type { Tool, ToolSource } from '../../../protocol/tool.ts';

/** The waits before another attempt. */
const BACK_OFF = { baseMs: 5_000, maxMs: 5 * 60_000 };

type HiddenServerOptions = {
  label: string;
  source: ToolSource;
  host: Host;
  /** How long requests wait for the first attempt, from its begin. */
  patienceMs: number;
  log(line: string): void;
};

/**
 * The tools of a hidden MCP server, which every request uses without asking for it.
 *
 * N1 One attempt to connect runs at a time. After a failure, the next attempt runs in the background, not within a request.
 * N2 Requests wait briefly for the first attempt. After that they use the known tools, if any.
 */
export class HiddenServer {
  readonly #options: HiddenServerOptions;
  #tools: readonly Tool[] | undefined;
  #error = 'it has not answered yet';
  /** Settles with the first attempt. */
  #first: Promise<void> | undefined;
  /** Settles when requests stop waiting. */
  #patience: Promise<void> | undefined;
  #cancelTimers = () => {};
  #isClosed = false;

  constructor(options: HiddenServerOptions) {
    this.#options = options;
  }

  /** Begins to connect, unless it has begun. Resolves after the first attempt, with or without success. */
  begin(): Promise<void> {
    this.#first ??= this.#connect(1);
    this.#patience ??= this.#losePatience();
    return this.#first;
  }

  /** The tools, or the reason why there are none. */
  async list(): Promise<{ tools: readonly Tool[]; error?: string }> {
    if (this.#tools === undefined) await Promise.race([this.begin(), this.#patience]);
    return this.#tools === undefined ? { tools: [], error: this.#error } : { tools: this.#tools };
  }

  /** Ends the attempts and the connection. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#cancelTimers();
    await this.#options.source.close();
  }

  async #connect(attempt: number): Promise<void> {
    const { label, source, host, log } = this.#options;
    try {
      this.#tools = await source.connect();
    } catch (error) {
      if (this.#isClosed) return;
      this.#error = messageOf(error);
      log(`The MCP server "${label}" is unavailable, so its tools are missing: ${this.#error}`);
      const again = () => void this.#connect(attempt + 1);
      this.#cancelTimers = host.setTimer(backOffMs(attempt, BACK_OFF), again, { keepAlive: false });
    }
  }

  #losePatience(): Promise<void> {
    const { label, host, patienceMs, log } = this.#options;
    return new Promise(resolve => {
      const lose = () => {
        if (this.#tools === undefined && !this.#isClosed)
          log(
            `The hidden MCP server "${label}" does not answer. Requests continue without its tools until it does.`,
          );
        resolve();
      };
      const cancel = host.setTimer(patienceMs, lose, { keepAlive: false });
      this.#first?.then(() => {
        cancel();
        resolve();
      });
    });
  }
}
