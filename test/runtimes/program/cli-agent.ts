import { makeDesk } from './refund-desk.ts';

/** The agent for the command line: its model is that of AGENTCHART_MODEL, its store that of `--db`. */
export default makeDesk({ provider: 'http://127.0.0.1:9' });
