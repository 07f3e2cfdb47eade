// A server of Qt's HTTP server with one habit, given by name: qthttp_app PORT HABIT [DATABASE_PORT].
#include <QtConcurrent/QtConcurrent>
#include <QCoreApplication>
#include <QtHttpServer/QHttpServer>
#include <QtHttpServer/QHttpServerResponse>
#include <QSettings>
#include <QSqlDatabase>
#include <QSqlError>
#include <QSqlQuery>
#include <QThreadPool>
#include <QTimer>

#include <algorithm>

namespace {

constexpr int connections = 16, rows = 20000, halls = 200, readings = 150000;
// How often settings are saved, and a report is made.
constexpr int eachMs = 1000;
// The meter behind the database takes 5 ms.
const QString meterQuery = "select note from valves where id = ? and pg_sleep(0.005) is not null";
const QString noteQuery = "select note from valves where id = ?";

// The database for whoever asks: each thread has a connection of its own, as Qt wants it.
QSqlDatabase database(const QString &port)
{
    const QString name = QString::number(quintptr(QThread::currentThreadId()));
    if (QSqlDatabase::contains(name))
        return QSqlDatabase::database(name, false);
    QSqlDatabase opened = QSqlDatabase::addDatabase("QPSQL", name);
    opened.setHostName("127.0.0.1");
    opened.setPort(port.toInt());
    opened.setUserName("truth");
    opened.setDatabaseName("postgres");
    if (!opened.open())
        qFatal("%s", qPrintable(opened.lastError().text()));
    return opened;
}

QHttpServerResponse noteFrom(const QString &port, const QString &text)
{
    thread_local QSqlQuery query(database(port));
    thread_local bool prepared = query.prepare(text);
    query.bindValue(0, 1 + QRandomGenerator::global()->bounded(rows));
    if (!prepared || !query.exec() || !query.next())
        return QHttpServerResponse(query.lastError().text().toUtf8(), QHttpServerResponse::StatusCode::BadGateway);
    return QHttpServerResponse("text/plain", query.value(0).toString().toUtf8());
}

// The count of visits is in the file with the halls' names.
void namesOfHalls(QSettings &settings)
{
    for (int n = 0; n < halls; ++n)
        settings.setValue(QString("halls/%1").arg(n), QString("hall %1, east").arg(n));
}

// Saved at once; settings that are only set would be saved by the event loop, with no more than a turn of it between.
QHttpServerResponse visitSaved(QSettings &settings)
{
    const int visits = settings.value("visits").toInt() + 1;
    settings.setValue("visits", visits);
    settings.sync();
    return QHttpServerResponse("text/plain", QByteArray::number(visits));
}

QHttpServerResponse visitCounted(int &visits)
{
    return QHttpServerResponse("text/plain", QByteArray::number(++visits));
}

// The report on the board at the gate: readings of all valves by their names.
QByteArray report()
{
    QStringList names;
    for (int n = 0; n < readings; ++n)
        names.append(QString::number(n * 7919LL % readings, 16));
    std::sort(names.begin(), names.end());
    return names.first().toUtf8() + ' ' + names.last().toUtf8();
}

}

int main(int argc, char **argv)
{
    QCoreApplication app(argc, argv);
    const QStringList args = app.arguments();
    const QString habit = args.value(2), port = args.value(3);
    QHttpServer server;
    QThreadPool pool;
    pool.setMaxThreadCount(connections);
    pool.setExpiryTimeout(-1);
    QSettings settings("visits.ini", QSettings::IniFormat);
    int visits = 0;
    QTimer timer;
    QByteArray shown = "no report yet";
    auto inTheLoop = [&](const QString &text) { server.route("/", [&port, text] { return noteFrom(port, text); }); };
    if (habit == "note") {
        inTheLoop(noteQuery);
    } else if (habit == "meter-in-the-loop") {
        inTheLoop(meterQuery);
    } else if (habit == "meter-in-threads") {
        server.route("/", [&] { return QtConcurrent::run(&pool, [&port] { return noteFrom(port, meterQuery); }); });
    } else if (habit.startsWith("visits")) {
        namesOfHalls(settings);
        if (habit == "visits-saved")
            server.route("/", [&] { return visitSaved(settings); });
        else
            server.route("/", [&] { return visitCounted(visits); });
        QObject::connect(&timer, &QTimer::timeout, [&] {
            settings.setValue("visits", std::max(visits, settings.value("visits").toInt()));
        });
    } else if (habit.startsWith("report")) {
        server.route("/", [&shown] { return QHttpServerResponse("text/plain", shown); });
        if (habit == "report-in-the-loop")
            QObject::connect(&timer, &QTimer::timeout, [&shown] { shown = report(); });
        else
            QObject::connect(&timer, &QTimer::timeout, &app, [&] {
                QtConcurrent::run(&pool, report).then(&app, [&shown](QByteArray made) { shown = made; });
            });
    }
    timer.start(eachMs);
    if (!server.listen(QHostAddress::LocalHost, args.value(1).toUShort()))
        qFatal("cannot listen");
    return app.exec();
}
