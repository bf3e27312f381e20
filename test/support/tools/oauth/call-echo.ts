/** `node call-echo.ts URL FILE`: calls the tool `echo` of an MCP server with the credentials in a file, and prints the result. */
import { credentialsFile, mcp } from '../../../../tools/mcp.ts';
import { runTool } from '../call-context.ts';

const [url = '', file = ''] = process.argv.slice(2);
const source = mcp({ name: 'desk', url, credentials: credentialsFile(file) });
console.log(await runTool(await source.connect(), 'echo', { text: 'hello' }));
await source.close();
