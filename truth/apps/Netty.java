import io.netty.bootstrap.ServerBootstrap;
import io.netty.buffer.Unpooled;
import io.netty.channel.ChannelFutureListener;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelInitializer;
import io.netty.channel.ChannelOption;
import io.netty.channel.SimpleChannelInboundHandler;
import io.netty.channel.nio.NioEventLoopGroup;
import io.netty.channel.socket.SocketChannel;
import io.netty.channel.socket.nio.NioServerSocketChannel;
import io.netty.handler.codec.http.DefaultFullHttpResponse;
import io.netty.handler.codec.http.FullHttpRequest;
import io.netty.handler.codec.http.FullHttpResponse;
import io.netty.handler.codec.http.HttpHeaderNames;
import io.netty.handler.codec.http.HttpObjectAggregator;
import io.netty.handler.codec.http.HttpResponseStatus;
import io.netty.handler.codec.http.HttpServerCodec;
import io.netty.handler.codec.http.HttpUtil;
import io.netty.handler.codec.http.HttpVersion;
import io.netty.handler.logging.LogLevel;
import io.netty.handler.logging.LoggingHandler;
import java.nio.charset.StandardCharsets;

/** A server on Netty, one event loop, with one habit: Netty PORT HABIT. */
public class Netty extends SimpleChannelInboundHandler<FullHttpRequest> {
    private static final int VALVES = 1000;
    private static final String LINE = ",open,1.5 bar,east wing\n";
    private final String habit;

    Netty(String habit) {
        this.habit = habit;
    }

    private String body() {
        return switch (habit) {
            case "concatenated" -> concatenated();
            case "built" -> built();
            default -> "{\"valve\":7,\"open\":true}";
        };
    }

    private static String concatenated() {
        String all = "";
        for (int valve = 0; valve < VALVES; valve++) {
            all += "valve " + valve + LINE;
        }
        return all;
    }

    private static String built() {
        StringBuilder all = new StringBuilder();
        for (int valve = 0; valve < VALVES; valve++) {
            all.append("valve ").append(valve).append(LINE);
        }
        return all.toString();
    }

    @Override
    protected void channelRead0(ChannelHandlerContext context, FullHttpRequest request) {
        byte[] body = body().getBytes(StandardCharsets.UTF_8);
        FullHttpResponse response = new DefaultFullHttpResponse(HttpVersion.HTTP_1_1, HttpResponseStatus.OK,
            Unpooled.wrappedBuffer(body));
        response.headers().set(HttpHeaderNames.CONTENT_TYPE, "text/plain").setInt(HttpHeaderNames.CONTENT_LENGTH, body.length);
        boolean keep = HttpUtil.isKeepAlive(request);
        HttpUtil.setKeepAlive(response, keep);
        var written = context.writeAndFlush(response);
        if (!keep) {
            written.addListener(ChannelFutureListener.CLOSE);
        }
    }

    public static void main(String[] arguments) throws InterruptedException {
        String habit = arguments[1];
        NioEventLoopGroup loop = new NioEventLoopGroup(1);
        new ServerBootstrap().group(loop).channel(NioServerSocketChannel.class).option(ChannelOption.SO_BACKLOG, 1024)
            .childHandler(new ChannelInitializer<SocketChannel>() {
                @Override
                protected void initChannel(SocketChannel channel) {
                    if (habit.equals("logged")) {
                        channel.pipeline().addLast(new LoggingHandler(LogLevel.INFO));
                    }
                    channel.pipeline().addLast(new HttpServerCodec(), new HttpObjectAggregator(1 << 16), new Netty(habit));
                }
            }).bind("127.0.0.1", Integer.parseInt(arguments[0])).sync().channel().closeFuture().sync();
    }
}
