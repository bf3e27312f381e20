import type { Agent } from '../../agent/agent.ts';
import { runsAwaitingSignIn, signInsOf } from '../../agent/sign-ins.ts';
import { agentNamed } from '../../agent/sub-agents.ts';
import { messageOf } from '../../protocol/error.ts';
import { omitUndefined } from '../../protocol/json.ts';
import type { Person } from '../../protocol/run-command.ts';
import type { SignInAnswer, ToolSignIn } from '../../protocol/tool.ts';
import { ApiError } from '../error-envelope.ts';
import { remember } from '../remember.ts';
import type { RunRegistry } from './run-registry.ts';
import type { ServedAgents } from './served-agents.ts';

/** The path to which the browser returns from an authorization server. */
const SIGN_IN_CALLBACK = '/sign-in/callback';

const MOST_BEGUN = 100;

type Begun = { signIn: ToolSignIn; by: Person | undefined };

/**
 * Signing people in at tool servers, for the runs that wait for it.
 *
 * The `state` in the browser's address is the secret that ties its return to a sign-in: it is random, counts once, and ends
 * after 10 minutes. After a restart of the server, each source still knows the
 * sign-ins that it began.
 */
export class SignIns {
  readonly #agents: ServedAgents;
  readonly #held: RunRegistry;
  readonly #log: (line: string) => void;
  readonly #begun = new Map<string, Begun>();

  constructor({ agents, held, log }: { agents: ServedAgents; held: RunRegistry; log(line: string): void }) {
    this.#agents = agents;
    this.#held = held;
    this.#log = log;
  }

  /** Returns where the person signs in. `origin`: that of this server, as the browser knows it. */
  async begin(
    { agentName, server, origin }: { agentName: string; server: string; origin: string },
    by: Person | undefined,
  ): Promise<{ url: string; expiresAt: number }> {
    const agent = this.#agents.serving(agentName);
    const own = agent && agentNamed(agent, agentName);
    const signIn = [own, agent]
      .flatMap(one => (one ? signInsOf(one) : []))
      .find(one => one.server === server);
    if (signIn === undefined)
      throw new ApiError('input-invalid', 'server: expected a tool server of this run where people sign in.');
    const redirectUrl = signIn.redirectUrl ?? `${origin}${SIGN_IN_CALLBACK}`;
    const { url, state, expiresAt } = await signIn.begin({ redirectUrl });
    remember(this.#begun, state, { signIn, by }, MOST_BEGUN);
    return { url, expiresAt };
  }

  /** Keeps the tokens, and lets the runs continue that wait for them. Returns the name of the tool server. */
  async complete(answer: SignInAnswer): Promise<string> {
    const begun = this.#begun.get(answer.state);
    this.#begun.delete(answer.state);
    for (const { signIn, by } of begun === undefined ? this.#all() : [begun]) {
      if (!(await signIn.isPending(answer.state))) continue;
      const { server } = await signIn.complete(answer);
      for (const agent of this.#agents.all()) await this.#tellRuns(agent, server, by);
      return server;
    }
    throw new ApiError(
      'input-invalid',
      'This sign-in is unknown, has been used, or is older than 10 minutes. Begin another one.',
    );
  }

  #all(): Begun[] {
    return this.#agents.all().flatMap(agent => signInsOf(agent).map(signIn => ({ signIn, by: undefined })));
  }

  /** A run whose server only has the same name asks again. */
  async #tellRuns(agent: Agent, server: string, by: Person | undefined): Promise<void> {
    for await (const { runId, topId } of runsAwaitingSignIn(agent, server)) {
      try {
        const hold = await this.#held.hold(topId);
        try {
          await hold.run.signedIn(server, { runId, ...omitUndefined({ as: by }) });
          this.#held.drive(topId);
        } finally {
          hold.release();
        }
      } catch (error) {
        this.#log(`Run ${runId} does not know that a person has signed in: ${messageOf(error)}`);
      }
    }
  }
}
