import type { Session, Start } from './session.ts';

/**
 * The connection to one MCP server.
 * 1. At most one process or session is starting or serving; all callers share it.
 * 2. After it has ended, the next `open` or `session` starts another; there are no automatic retries.
 * 3. A lost session is replaced once for all its callers, and closed when their calls have ended.
 * 4. After `close` only `open` starts the server; `session` and `renew` reject.
 * 5. `close` ends the process or session and rejects its pending calls, even while it is starting.
 */
export type ServerConnection = {
  /** Returns the current session; starts the server if necessary, also after `close`. */
  open(): Promise<Session>;
  /** Returns the current session, or a new one if the server has ended. Rejects after `close`. */
  session(): Promise<Session>;
  /** Replaces a session that the server has lost. Returns the newer session if it was already replaced. */
  renew(lost: Session): Promise<Session>;
  close(): Promise<void>;
};

/** Creates a connection that calls `startServer` when a session is needed. Connects nothing itself. */
export function createServerConnection(name: string, startServer: () => Promise<Start>): ServerConnection {
  let current: Promise<Start> | null = null;
  const retired = new Set<Start>();
  let closed = true;

  function open(): Promise<Session> {
    closed = false;
    current ??= start();
    return current.then(({ ready }) => ready);
  }

  function start(): Promise<Start> {
    const starting = startServer();
    const forget = () => {
      if (current === starting) current = null;
    };
    starting.then(({ ended }) => ended.then(forget), forget);
    return starting;
  }

  async function session(): Promise<Session> {
    if (closed) throw new Error(`the MCP server "${name}" is closed; nothing was sent. Connect it again.`);
    return open();
  }

  return {
    open,
    session,
    async renew(lost) {
      const starting = current;
      const started = await starting?.catch(() => null);
      const newest = await started?.ready.catch(() => null);
      if (starting === current && started && newest === lost) {
        current = null;
        retired.add(started);
        started.ended.then(() => retired.delete(started));
        started.retire();
      }
      return session();
    },
    async close() {
      closed = true;
      const starting = current;
      current = null;
      const started = await starting?.catch(() => null);
      await Promise.allSettled([...retired, ...(started ? [started] : [])].map(each => each.close()));
      await started?.ready.catch(() => {});
    },
  };
}
