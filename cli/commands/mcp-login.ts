import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Agent } from '../../agent/agent.ts';
import { runsAwaitingSignIn, signInsOf } from '../../agent/sign-ins.ts';
import { EngineError, invalidInput, messageOf } from '../../protocol/error.ts';
import type { SignedIn, ToolSignIn } from '../../protocol/tool.ts';
import { isLoopback } from '../../server/bind-address.ts';
import type { Action } from '../command-table.ts';
import { describeCoded, EXIT } from '../exit-codes.ts';
import { makeAgents, withAgent } from '../launch.ts';
import { loadAgent } from '../load-agent.ts';
import { storeFile } from '../options.ts';
import { CommandLines } from '../render/command-lines.ts';
import { isDatabase } from '../render/format.ts';
import { dim, Output } from '../render/output.ts';
import { withStore } from '../store.ts';

export const login: Action<'mcp login'> = async ({ server, agent: module, browser, json, db }) => {
  const output = new Output({ json });
  const agent = await loadAgent(module);
  return await withAgent(agent, output, async () => {
    const signIn = signInAt(agent, server);
    const { issuer, url, scopes } = await signInHere(signIn, begun => {
      output.tell(
        { type: 'sign-in', server, ...begun },
        `To sign in at "${server}", open this URL in a browser:`,
      );
      if (!json) output.line(begun.url);
      if (browser && output.isLive) openBrowser(begun.url);
    });
    output.tell(
      { type: 'signed-in', server, url, issuer, scopes },
      `Signed in at "${server}" through ${issuer}.`,
    );
    if (!json && scopes.length > 0) output.line(dim(`Scopes: ${scopes.join(' ')}`));
    await continueRuns(server, { module, file: storeFile(db), output });
    return EXIT.done;
  });
};

/** The runs that wait for the sign-in continue here, unless another process drives them. A new store is not created. */
async function continueRuns(
  server: string,
  { module, file, output }: { module: string; file: string; output: Output },
): Promise<void> {
  if (!isDatabase(file) && !existsSync(file)) return;
  await withStore(file, async store => {
    const [agent] = (await makeAgents([module], store)).agents.values();
    if (agent === undefined) return;
    await withAgent(agent, output, async () => {
      const work: Promise<void>[] = [];
      const tell = async ({ runId, topId }: { runId: string; topId: string }): Promise<void> => {
        try {
          const run = await agent.open(topId);
          const told = await run.signedIn(server, { runId });
          if (!told.accepted) return output.problem(describeCoded(told));
          const { status } = await run.settled();
          output.tell({ type: 'run', runId: topId, status }, `Run ${topId} continued: ${status}.`);
        } catch (error) {
          const resume = new CommandLines(file).of('resume', topId);
          output.problem(`Run ${topId} did not continue: ${messageOf(error)} To resume it: ${resume}`);
        }
      };
      for await (const waiting of runsAwaitingSignIn(agent, server)) work.push(tell(waiting));
      await Promise.all(work);
    });
  });
}

export const logout: Action<'mcp logout'> = async ({ server, agent: module, json }) => {
  const output = new Output({ json });
  const agent = await loadAgent(module);
  return await withAgent(agent, output, async () => {
    const wasSignedIn = await signInAt(agent, server).signOut();
    const text = wasSignedIn
      ? `Signed out of "${server}" on this machine. The pages of the authorization server end the access itself.`
      : `No one was signed in at "${server}".`;
    output.tell({ type: 'signed-out', server, wasSignedIn }, text);
    return EXIT.done;
  });
};

function signInAt(agent: Agent, server: string): ToolSignIn {
  const signIns = signInsOf(agent);
  const found = signIns.find(signIn => signIn.server === server);
  if (found !== undefined) return found;
  const names = [...new Set(signIns.map(signIn => `"${signIn.server}"`))].join(', ');
  throw invalidInput(
    names === ''
      ? `The agent "${agent.name}" has no MCP server where people sign in: they have a \`url\`, and no \`Authorization\` header.`
      : `The agent "${agent.name}" has no MCP server "${server}" where people sign in. It has ${names}.`,
  );
}

/** Signs in with a browser that returns to this process. `show` gets the URL that the person opens. */
async function signInHere(
  signIn: ToolSignIn,
  show: (begun: { url: string; expiresAt: number }) => void,
): Promise<SignedIn> {
  const place = new URL(signIn.redirectUrl ?? 'http://127.0.0.1:0/callback');
  if (place.protocol !== 'http:' || !isLoopback(place.hostname))
    throw invalidInput(
      `The sign-in at "${signIn.server}" returns to ${place.origin}${place.pathname}: begin it there. This command can take it only on this machine.`,
    );
  const listener = createServer();
  await listen(listener, place);
  const { port } = listener.address() as AddressInfo;
  if (signIn.redirectUrl === undefined) place.port = String(port);
  const expired = new AbortController();
  let timer: NodeJS.Timeout | undefined;
  try {
    const { url, state, expiresAt } = await signIn.begin({ redirectUrl: place.href });
    timer = setTimeout(() => expired.abort(), expiresAt - Date.now());
    const signedIn = awaitAnswer(listener, signIn, { place, state, signal: expired.signal });
    show({ url, expiresAt });
    return await signedIn;
  } finally {
    clearTimeout(timer);
    listener.close();
    listener.closeIdleConnections();
  }
}

async function listen(listener: Server, { hostname, port }: URL): Promise<void> {
  listener.listen(Number(port), hostname.replace(/^\[(.*)\]$/, '$1'));
  try {
    await once(listener, 'listening');
  } catch (error) {
    throw invalidInput(
      `Cannot listen on ${hostname}:${port}, where the browser would return to: ${messageOf(error)}`,
    );
  }
}

/** Requests of others, with another path or state, are refused and change nothing. */
async function awaitAnswer(
  listener: Server,
  signIn: ToolSignIn,
  { place, state, signal }: { place: URL; state: string; signal: AbortSignal },
): Promise<SignedIn> {
  return await new Promise((resolve, reject) => {
    signal.addEventListener('abort', () =>
      reject(
        new EngineError(
          'sign-in-failed',
          `The sign-in at "${signIn.server}" was not completed in time. Run the command again.`,
        ),
      ),
    );
    listener.on('request', async (request, response) => {
      const answer = (status: number, text: string) => {
        response.writeHead(status, {
          'content-type': 'text/plain; charset=utf-8',
          'cache-control': 'no-store',
          'referrer-policy': 'no-referrer',
          connection: 'close',
        });
        response.end(`${text}\n`);
      };
      const { pathname, searchParams } = URL.parse(request.url ?? '', place.href) ?? {};
      if (request.method !== 'GET' || pathname !== place.pathname || searchParams === undefined)
        return answer(404, 'There is nothing here.');
      if (searchParams.get('state') !== state) return answer(400, 'This is not the sign-in that was begun.');
      const [code, iss, error] = ['code', 'iss', 'error'].map(name => searchParams.get(name) ?? undefined);
      try {
        const signedIn = await signIn.complete({ state, code, iss, error });
        answer(200, `You are signed in at ${signIn.server}. You can close this window.`);
        resolve(signedIn);
      } catch (problem) {
        answer(400, 'The sign-in failed. The terminal says why.');
        reject(problem);
      }
    });
  });
}

/** A browser that is missing or does not open changes nothing: the URL is printed too. */
function openBrowser(url: string): void {
  const [command, ...words] = {
    darwin: ['open'],
    win32: ['rundll32', 'url.dll,FileProtocolHandler'],
    linux: ['xdg-open'],
  }[String(process.platform)] ?? ['xdg-open'];
  const child = spawn(command ?? '', [...words, url], { stdio: 'ignore', detached: true });
  child.on('error', () => {});
  child.unref();
}
