import { postgres } from 'agentchart/stores/postgres';

/** A database, for processes on any number of machines. It makes its tables itself. */
export const store = postgres(process.env.AGENTCHART_DB ?? 'postgres://agents:agents@127.0.0.1:5432/agents');
