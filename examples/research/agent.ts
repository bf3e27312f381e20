// In a project of your own: from 'agentchart/adapters/model-from-env'.
import { modelFromEnv } from '../../adapters/model-from-env.ts';
import { makeResearcher } from './researcher.ts';
import { standInModel } from './stand-in-model.ts';

/** The agent module for the command line: `agentchart run --agent examples/research/agent.ts "a question"`. */
export default makeResearcher(process.env.AGENTCHART_MODEL === undefined ? standInModel() : modelFromEnv());
