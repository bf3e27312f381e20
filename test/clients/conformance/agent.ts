import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/index.ts';

/** The one tool of the MCP server that the conformance suite calls. */
export default createAgent({ name: 'assistant', model: scripted([{ text: 'Hello.' }]) });
