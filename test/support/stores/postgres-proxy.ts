import { connect, createServer, type Socket } from 'node:net';

/** Which replies to drop: of every `every`th statement that matches, at most `times`. Default: of all of them. */
type Dropping = { times?: number; every?: number };

/** A proxy in front of a PostgreSQL server. */
export type PostgresProxy = {
  url: string;
  /** How many replies were dropped. */
  dropped(): number;
  /** How many connections clients have made. */
  connections(): number;
  /** Cuts connections once the server has answered such a statement, and does not pass the answer on. */
  dropReplies(statement: RegExp, dropping?: Dropping): void;
  /** Cuts all connections, and each new one, until `rejoin`. */
  cutOff(): void;
  rejoin(): void;
  /** Sends new connections to another server. */
  turnTo(url: string): void;
  close(): Promise<void>;
};

/** Starts a proxy in front of the server at `url`. */
export async function startProxy(url: string): Promise<PostgresProxy> {
  let target = new URL(url);
  let wanted: { statement: RegExp; left: number; every: number; seen: number } | undefined;
  let dropped = 0;
  let connections = 0;
  let isCutOff = false;
  const sockets = new Set<Socket>();
  const isDoomedBy = (data: Buffer) => {
    if (wanted === undefined || wanted.left === 0 || !wanted.statement.test(data.toString('latin1')))
      return false;
    wanted.seen += 1;
    if (wanted.seen % wanted.every !== 0) return false;
    wanted.left -= 1;
    return true;
  };
  const proxy = createServer(client => {
    connections += 1;
    if (isCutOff) return void client.destroy();
    const upstream = connect(Number(target.port), target.hostname);
    let isDoomed = false;
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.on('error', () => {});
      socket.on('close', () => {
        sockets.delete(socket);
        client.destroy();
        upstream.destroy();
      });
    }
    client.on('data', data => {
      if (isDoomedBy(data)) isDoomed = true;
      upstream.write(data);
    });
    upstream.on('data', data => {
      if (!isDoomed) return void client.write(data);
      // "C": the statement is complete, and with it its transaction.
      if (!data.toString('latin1').includes('INSERT')) return;
      dropped += 1;
      client.destroy();
    });
  });
  proxy.listen(0, '127.0.0.1');
  await new Promise(resolve => proxy.once('listening', resolve));
  const address = proxy.address();
  const own = new URL(url);
  own.port = String(typeof address === 'object' ? address?.port : '');
  return {
    url: own.href,
    dropped: () => dropped,
    connections: () => connections,
    dropReplies: (statement, { times = Number.POSITIVE_INFINITY, every = 1 } = {}) => {
      wanted = { statement, left: times, every, seen: 0 };
    },
    cutOff: () => {
      isCutOff = true;
      for (const socket of sockets) socket.destroy();
    },
    rejoin: () => {
      isCutOff = false;
    },
    turnTo: to => {
      target = new URL(to);
    },
    close: async () => {
      for (const socket of sockets) socket.destroy();
      await new Promise(resolve => proxy.close(resolve));
    },
  };
}
