import type { Session, Start } from './session.ts';

/**
 * The connection to one MCP server.
 * 1. One process or session at most is starting or serving; all callers share it.
 * 2. One that ended is replaced when somebody asks for a session again, once for each asking.
 * 3. A session that was lost is replaced once for all who lost it, and ends when their calls have.
 * 4. After `close` nothing is started by `session` or `renew`, only by `open`.
 * 5. `close` ends the process or session and what waits for it, also while it is starting.
 */
export type ServerConnection = {
  open(): Promise<Session>;
  /** The session there is, or a new one when the server has ended. Rejects once closed. */
  session(): Promise<Session>;
  /** A session in place of one the server has lost; a newer one if somebody has it already. */
  renew(lost: Session): Promise<Session>;
  close(): Promise<void>;
};

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
