import type { Agent, Run } from '../../../agent/index.ts';
import { omitUndefined } from '../../../protocol/json.ts';
import { createRunsApp, type RunsAppOptions } from '../../../server/app.ts';
import { type Serving, serveRuns } from '../../../server/serve.ts';
import { pageAssets } from '../../../visualizer/page-assets.ts';

export type ServedOptions = Pick<Partial<RunsAppOptions>, 'token' | 'tokens' | 'exploreAgent'> & {
  port?: number;
};

/**
 * The runs API with its page, served on a port from agents in this process. To restart the server, close it and
 * listen again on the same port, over the same store.
 */
export class ServedRuns {
  readonly #agents: readonly Agent[];
  readonly #serving: Serving;
  readonly #token: string | undefined;

  private constructor(agents: readonly Agent[], serving: Serving, token: string | undefined) {
    this.#agents = agents;
    this.#serving = serving;
    this.#token = token;
  }

  static async listen(
    agents: readonly Agent[],
    { port = 0, token, tokens, exploreAgent }: ServedOptions = {},
  ): Promise<ServedRuns> {
    const [first] = agents;
    if (first === undefined) throw new Error('Expected an agent to serve.');
    const app = createRunsApp({
      store: first.store,
      agents: new Map(agents.map(agent => [agent.name, agent])),
      assets: await pageAssets(),
      ...omitUndefined({ token, tokens, exploreAgent }),
    });
    const serving = await serveRuns(app, { host: '127.0.0.1', port });
    await app.pickUp();
    return new ServedRuns(agents, serving, token);
  }

  get url(): string {
    return this.#serving.url;
  }

  get port(): number {
    return this.#serving.port;
  }

  /** Starts a run through the API, and attaches to it as another reader of its store. */
  async start(name: string, input: string): Promise<Run> {
    const authorization = this.#token === undefined ? {} : { authorization: `Bearer ${this.#token}` };
    const response = await fetch(`${this.url}/runs`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...authorization },
      body: JSON.stringify({ agent: name, input }),
    });
    const { runId } = (await response.json()) as { runId: string };
    const agent = this.#agents.find(served => served.name === name);
    if (agent === undefined) throw new Error(`No agent ${name} is served.`);
    return await agent.open(runId);
  }

  close(): Promise<void> {
    return this.#serving.close();
  }
}
