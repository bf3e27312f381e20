/** `npx vite examples/apps/use-chat`, beside `node examples/apps/use-chat/server.ts`. */
export default { server: { proxy: { '/api': 'http://localhost:4200' } } };
