import { createAgent } from 'agentchart';
import { modelFromEnv } from 'agentchart/adapters/model-from-env';
import { sqlite } from 'agentchart/stores/sqlite';
import { lookUpOrder, refund } from './tools.ts';

const tools = [lookUpOrder, refund];
export default createAgent({ name: 'support', model: modelFromEnv(), tools, store: sqlite() });
